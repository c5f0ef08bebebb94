"""A server of several replicas, by Ray Serve: each has the whole application and a worker of its own.

Ray's proxy takes the connections and hands each request to a replica with room. When requests pile up it starts more
replicas, when one dies it starts another; a client that disconnects has its request called off in its replica.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.cluster.connection import connect
from regard.serve.access import Keys
from regard.serve.app import make_app
from regard.serve.catalogue import load_models
from regard.serve.limits import Limits
from regard.serve.server import GRACE, Address
from regard.serve.state import ServerState
from regard.serve.worker import Worker
from regard.serve.worker_group import WorkerGroup

NAME = "regard"
COUNTS = re.compile(r"([1-9]\d{0,3})(?::([1-9]\d{0,3}))?")
BUSY_SHARE = 0.5  # of the requests that a model answers side by side, at which Ray starts another replica
HEADROOM = 64  # requests beyond the queue of a replica, which are refused there at once, and probes
HEALTH_SECONDS = 2.0  # between two looks at a replica
UPSCALE_SECONDS, DOWNSCALE_SECONDS = 5.0, 120.0


@dataclass(frozen=True, kw_only=True)
class ReplicaSettings:
    """What every replica needs to start by itself."""

    folders: tuple[str, ...]
    device: str
    limits: Limits
    keys: tuple[str, ...]
    hosts: tuple[str, ...]
    directory: str
    """Where relative folders begin."""


class Replica:
    """A process of the cluster with all models, a worker and the application."""

    async def __init__(self, settings: ReplicaSettings) -> None:  # type: ignore[misc] # Ray Serve awaits it
        os.chdir(settings.directory)
        catalogue = load_models(list(settings.folders), device=settings.device)
        worker = WorkerGroup([Worker(catalogue.trained_models, settings.limits)])
        worker.start()
        await worker.warm_up()
        self.state = ServerState(worker, catalogue, settings.limits, Keys(settings.keys), is_warm=True)
        self.hosts = settings.hosts

    def __serve_build_asgi_app__(self) -> Any:
        """Return the application, for Ray Serve."""
        return make_app(self.state, hosts=self.hosts)

    def check_health(self) -> None:
        """Raise an error if the worker has died, for Ray Serve, which then starts another replica."""
        if not self.state.worker.alive:
            raise RuntimeError("the worker has died")


def read_counts(text: str) -> tuple[int, int]:
    """Return the least and the largest number of replicas that 2 or 1:4 say."""
    match = COUNTS.fullmatch(text)
    least = int(match[1]) if match else 0
    most = int(match[2] or match[1]) if match else 0
    if not match or most < least:
        raise ValueError(f"--replicas {text}: give a number, or the least and the most, such as 1:4")
    return least, most


def serve_replicas(
    address: str, replicas: tuple[int, int], settings: ReplicaSettings, listen: Address, log: Callable[[str], None]
) -> None:
    """Serve on a cluster until SIGTERM or SIGINT."""
    over = threading.Event()
    with connect(address):
        for number in (signal.SIGTERM, signal.SIGINT):  # now, since Ray has handlers of its own, which abort
            signal.signal(number, lambda *_: over.set())
        _deploy(replicas, settings, listen)
        least, most = replicas
        several = f"{least} to {most} replicas" if most > least else f"{most} replica{'s' * (most > 1)}"
        log(f"ready: http://{listen.host}:{listen.port}, {several}")
        over.wait()
        log("stopping")
        _shut_down()


def _deploy(replicas: tuple[int, int], settings: ReplicaSettings, listen: Address) -> None:
    """Start the proxy and the least number of replicas, and wait until they are ready."""
    from ray import serve
    from ray.serve.config import AutoscalingConfig, HTTPOptions
    from ray.serve.schema import LoggingConfig

    limits, gpus = settings.limits, int(settings.device == "cuda")
    logging.getLogger("ray.serve").setLevel(logging.ERROR)  # its notes would stand between ours
    log_settings = LoggingConfig(log_level="ERROR", enable_access_log=False)  # an access log would have addresses in it
    options = HTTPOptions(host=listen.host, port=listen.port, request_timeout_s=limits.deadline + GRACE)
    serve.start(http_options=options, logging_config=log_settings)
    deployment: Any = serve.deployment(
        serve.ingress()(Replica),
        name=NAME,
        max_ongoing_requests=limits.running + limits.queue + HEADROOM,
        max_queued_requests=limits.queue,
        autoscaling_config=AutoscalingConfig(
            min_replicas=replicas[0],
            max_replicas=replicas[1],
            target_ongoing_requests=max(1.0, BUSY_SHARE * limits.running),
            upscale_delay_s=UPSCALE_SECONDS,
            downscale_delay_s=DOWNSCALE_SECONDS,
        ),
        ray_actor_options={"num_cpus": 1 - gpus, "num_gpus": gpus},
        health_check_period_s=HEALTH_SECONDS,
        logging_config=log_settings,
    )
    serve.run(deployment.bind(settings), name=NAME, route_prefix="/")


def _shut_down() -> None:
    from ray import serve

    serve.shutdown()


def make_settings(
    folders: Sequence[str], device: str, limits: Limits, keys: Sequence[str], listen: Address
) -> ReplicaSettings:
    """Return what replicas need, from what a command was given."""
    return ReplicaSettings(
        folders=tuple(folders),
        device=device,
        limits=limits,
        keys=tuple(keys),
        hosts=listen.accepted_names,
        directory=os.getcwd(),
    )
