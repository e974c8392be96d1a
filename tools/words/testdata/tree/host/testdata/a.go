package ignored

func still() {}
