"""A client in another language: a person registers, leaves and comes back, with the standard library alone.

Usage: person.py URL DATABASE USER, with the token in the environment variable PROBITY_TOKEN.
"""

import json
import os
import sys
import urllib.request


def main():
    url, database, user = sys.argv[1:]
    token = os.environ["PROBITY_TOKEN"]

    def do(operation, **body):
        request = urllib.request.Request(
            f"{url}/v1/disguise/{database}/{operation}",
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    credential = do("register", user=user, spec="leave")["credential"]
    applied = do("apply", spec="leave", user=user)
    listed = do("list", user=user, credential=credential)["disguises"]
    assert [it["id"] for it in listed] == [applied["id"]], listed
    revealed = do("reveal", id=applied["id"], user=user, credential=credential)
    assert revealed["complete"] and not revealed["kept"], revealed
    json.dump({"applied": applied, "revealed": revealed}, sys.stdout)


if __name__ == "__main__":
    main()
