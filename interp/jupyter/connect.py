# Relays lines between Croft, on standard input and output, and a bridge, on its socket.
import os, socket, threading

s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["KERNEL_SOCKET"])


def up():
    while True:
        data = os.read(0, 1 << 16)
        if not data:
            break
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)


threading.Thread(target=up, daemon=True).start()
while True:
    data = s.recv(1 << 16)
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
os._exit(0)
