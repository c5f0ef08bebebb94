"""Clients that translate while the explorer is measured: `python -m benchmarks.explorer_load URL --clients 4`.

They go on until the process is ended; every answer is a line on the standard output.
"""

from __future__ import annotations

import argparse
import json
import threading
from http.client import HTTPConnection
from itertools import count

from benchmarks.translate import EVERYDAY, sentences

SENTENCES = 128


def main() -> None:
    """Start the clients, and wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=4)
    arguments = parser.parse_args()
    threads = [threading.Thread(target=translate, args=(arguments.url, n)) for n in range(arguments.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def translate(url: str, client: int) -> None:
    """Send one sentence after the other, each client other ones."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=60)
    texts = sentences(SENTENCES, EVERYDAY)
    for number in count(client * SENTENCES // 4):
        body = {"model": "en-fr", "inputs": [texts[number % SENTENCES]], "options": {"to": "fr"}}
        connection.request("POST", "/v1/translate", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"/v1/translate: {response.status} {content[:200].decode()}")
        print(client, flush=True)


if __name__ == "__main__":
    main()
