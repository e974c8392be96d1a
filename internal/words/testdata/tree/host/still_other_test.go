package host

func hold() {}
