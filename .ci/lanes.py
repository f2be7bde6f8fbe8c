"""Runs tests of the workspace side by side: most wait for disks and servers, not for a core.

Usage: lanes.py LANES [ARGUMENT...], the arguments being those of `cargo test`. Each test program
runs in the folder of its crate, as cargo runs it, and prints when it has ended; then come the
examples in documentation, unless programs are named. Ends with 1 if one of them failed.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time

# Lines of a failed program that are printed once more at the end.
REASON_LINES = 60

# The programs that take longest start first, so that none of them is alone at the end.
LONGEST = """
    servers crash sqlite server it memory kill schemas disguise tamper small damaged serve sql
    unsigned foreign
""".split()


def programs(arguments):
    """Builds the test programs. Returns the name, the folder and the path of each."""
    build = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    built = subprocess.run(build, stdout=subprocess.PIPE, check=False, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            folder = os.path.dirname(message["manifest_path"])
            found.append((message["target"]["name"], folder, message["executable"]))
    last = len(LONGEST)
    rank = {name: place for place, name in enumerate(LONGEST)}
    return sorted(found, key=lambda it: (rank.get(it[0], last), it[1], it[0]))


def reasons(output):
    """Returns what a failed program printed of its failures, which a long log may be cut before."""
    lines = output.decode(errors="replace").splitlines(keepends=True)
    begin = lines.index("failures:\n") if "failures:\n" in lines else -REASON_LINES
    return "".join(lines[begin:][:REASON_LINES])


def run(waiting, failed, printing):
    """Runs programs until none waits."""
    while True:
        try:
            name, folder, program = waiting.get_nowait()
        except queue.Empty:
            return
        began = time.monotonic()
        environment = dict(os.environ, CARGO_MANIFEST_DIR=folder)
        ended = subprocess.run(
            [program],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        title = f"{os.path.relpath(folder)}, {name}: {time.monotonic() - began:.0f} s"
        with printing:
            print(f"\n     Running {title}", flush=True)
            sys.stdout.buffer.write(ended.stdout)
            sys.stdout.flush()
            if ended.returncode != 0:
                failed.append((title, reasons(ended.stdout)))


def drain(waiting):
    """Takes away what waits."""
    try:
        while True:
            waiting.get_nowait()
    except queue.Empty:
        return


def main():
    lanes, arguments = int(sys.argv[1]), sys.argv[2:]
    waiting, failed, printing = queue.SimpleQueue(), [], threading.Lock()
    for program in programs(arguments):
        waiting.put(program)
    running = [
        threading.Thread(target=run, args=(waiting, failed, printing)) for _ in range(lanes)
    ]
    for lane in running:
        lane.start()
    try:
        for lane in running:
            lane.join()
    except KeyboardInterrupt:
        # The programs that run have the signal too; no other begins.
        drain(waiting)
        sys.exit(130)
    # Programs that are named are meant alone.
    if "--test" not in arguments:
        documented = subprocess.run(["cargo", "test", "--doc", *arguments], check=False)
        if documented.returncode != 0:
            failed.append(("the examples in documentation", ""))
    for title, why in failed:
        print(f"{why}FAILED: {title}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
