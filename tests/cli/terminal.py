#!/usr/bin/env python3
# terminal.py SCRIPT COMMAND... - runs the command at a new terminal, by a script
# in JSON: a list of steps [text to send, text to wait for], or with a number of
# columns in place of the text to send.  Prints all that the terminal receives;
# exits with status 1 if a wait was in vain.  The prompt of qchat is "h> ", after
# an escape sequence: by then the terminal is raw.
import fcntl, json, os, pty, select, signal, struct, sys, termios, time

pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
ok = True


def read(seconds, want=None):
    """Until a text that was not seen before comes, or the time is over."""
    global seen
    start, end = len(seen), time.time() + seconds
    while want is None or want not in seen[start:]:
        left = end - time.time()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return want is None
        try:
            more = os.read(fd, 65536)
        except OSError:
            return want is None
        if not more:
            return want is None
        seen += more
    return True


for send, want in json.loads(sys.argv[1]):
    if not ok:
        break
    if isinstance(send, int):
        read(0.3)
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, send, 0, 0))
        send = ""
    # one write a step, as a terminal does with what is pasted; after all that
    # is on its way, and once lines are not edited by the terminal
    for i in range(40 if send else 0):
        read(0.05)
        if not termios.tcgetattr(fd)[3] & termios.ICANON:
            break
    if send:
        os.write(fd, send.encode("utf-8", "surrogateescape"))
    ok = read(30, want.encode())
    if not ok:
        sys.stderr.write("no %r after %r\n" % (want, send))
if ok:
    read(30)
else:
    os.kill(pid, signal.SIGKILL)
done = 0
for i in range(100):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    time.sleep(0.05)
if not done:
    sys.stderr.write("it does not end\n")
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
if os.WIFSIGNALED(status):
    print("\nsignal %d" % os.WTERMSIG(status))
sys.exit(0 if ok and os.waitstatus_to_exitcode(status) == 0 else 1)
