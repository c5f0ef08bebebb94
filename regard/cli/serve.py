"""The command that serves trained models over HTTP."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.grammar import Settings
from regard.cli.text_io import print_note

if TYPE_CHECKING:
    from regard.serve.catalogue import Catalogue
    from regard.serve.limits import Limits
    from regard.serve.run_view import RunView
    from regard.serve.server import Address

WIDTH = 80
EXTRA = "fastapi, uvicorn or prometheus-client is missing: pip install 'regard[serve]'"


def serve(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Run folders, checkpoints or names; the shipped ones if none."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="NUMBER", min=0, max=65535, help="The port; 0: a free one.")] = 8000,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keys, one in each line, of which requests must bring one.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name of the host that requests may be sent to; again for more."),
    ] = None,
    jobs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Take jobs of many inputs, and keep them in this folder.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option("--ray", metavar="[ADDRESS]", help="Serve on a Ray cluster, as several replicas.")
    ] = None,
    replicas: Annotated[
        str | None, typer.Option(metavar="LEAST:MOST", help="Replicas on a cluster, more when requests pile up.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Show a run, also while it trains; without models if none.")
    ] = None,
    settings: Settings = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps; several share requests: cuda:0,cuda:1.")
    ] = "auto",
    watch: Annotated[
        bool, typer.Option("--watch", help="Take over a new best checkpoint of a run, once it is checked.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Say what would be served, and stop.")] = False,
    limits: Annotated[bool, typer.Option("--limits", help="List the limits that -s can set, and stop.")] = False,
) -> None:
    """Serve models over HTTP: LibreTranslate's and OpenAI's routes, and one route for every task."""
    from regard.serve.limits import read_limits

    if limits:
        _print_limits()
        return
    bounds = read_limits(settings or [])
    devices = [name.strip() for name in device.split(",")]
    of_one_server = {"--jobs": jobs, "--run": run, "--watch": watch, f"--device {device}": len(devices) > 1}
    _check_cluster(ray, replicas, of_one_server)
    check_packages()
    from regard.serve.access import read_keys
    from regard.serve.server import Address

    keys = read_keys(key_file) if key_file is not None else ()
    address = Address(host=host, port=port, names=tuple(name.lower() for name in allow_host or ()))
    command = ServeCommand(tuple(folders or ()), address, keys, bounds, devices, run)
    command.load()
    if check:
        return
    if ray is not None:
        command.run_on_cluster(ray, replicas or "1")
    else:
        command.run(jobs, watch=watch)


@dataclass
class ServeCommand:
    """What a server is started with."""

    folders: tuple[str, ...]
    address: Address
    keys: tuple[str, ...]
    limits: Limits
    devices: list[str]
    run_folder: Path | None = None
    """The run that is shown."""
    catalogue: Catalogue = field(init=False)
    """The models on the first device."""
    copies: list[Catalogue] = field(init=False)
    """The same on the others."""
    run_view: RunView | None = field(init=False, default=None)

    def load(self) -> None:
        """Load the models on all devices, and say what they are."""
        from regard.serve.access import Keys
        from regard.serve.catalogue import Catalogue, load_models

        self.address.check(Keys(self.keys))
        self.run_view = None if self.run_folder is None else open_run(self.run_folder)
        if self.run_view is not None and not self.folders:
            self.catalogue, *self.copies = (Catalogue([]) for _ in self.devices)
            return
        self.catalogue, *self.copies = (load_models(list(self.folders), device=name) for name in self.devices)
        for model in self.catalogue:
            size = model.trained.runner.weights.number
            print(f"{model.name}: {model.verb}, {model.trained.kind} of {size:,} parameters")

    def run(self, jobs_folder: Path | None, *, watch: bool) -> None:
        """Serve in this process until a signal."""
        from regard.serve.access import Keys
        from regard.serve.server import make_server

        server = make_server(
            self.catalogue,
            self.limits,
            self.address,
            keys=Keys(self.keys),
            jobs_folder=jobs_folder,
            copies=self.copies,
            watched_devices=self.devices if watch else (),
        )
        server.state.run = self.run_view
        try:
            server.run()
        except SystemExit:  # uvicorn's word for a port that is taken
            host, port = self.address.host, self.address.port
            raise ValueError(f"cannot listen at {host}, port {port}: is another program there? try --port 0") from None

    def run_on_cluster(self, cluster: str, replicas: str) -> None:
        """Serve by replicas on a cluster until a signal."""
        from regard.cluster.replicas import make_settings, read_counts, serve_replicas

        settings = make_settings(self.folders, self.devices[0], self.limits, self.keys, self.address)
        serve_replicas(cluster, read_counts(replicas), settings, self.address, print_note)


def open_run(folder: Path) -> RunView:
    """Open a run to show, and say how it stands."""
    from regard.serve.run_view import RunView

    if not (folder / "config.yaml").is_file() and not (folder / "train.log").is_file():
        raise ValueError(f"{folder}: not a run folder, name one that `regard train` made")
    view = RunView(folder)
    state = view.summary()["state"]
    print(f"{view.name}: a run, {state['state']}, step {state['step']:,}")
    return view


def check_packages() -> None:
    """Raise ValueError, before a model is loaded, if a package is missing that the server needs."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError(EXTRA) from None


def _check_cluster(ray: str | None, replicas: str | None, of_one_server: Mapping[str, object]) -> None:
    """Refuse, before a model is loaded, what a cluster cannot do, and replicas without one."""
    if ray is None:
        if replicas is not None:
            raise ValueError(f"--replicas {replicas} is for a cluster: add --ray")
        return
    from regard.cluster.connection import check_address
    from regard.cluster.replicas import read_counts

    check_address(ray)
    read_counts(replicas or "1")
    for option, is_given in of_one_server.items():
        if is_given:
            raise ValueError(f"{option} is for one server: leave it out with --ray")


def _print_limits() -> None:
    from regard.serve.limits import describe_limits

    for name, default, help in describe_limits():
        print(f"{name} = {default}")
        print(textwrap.fill(help, WIDTH, initial_indent="  ", subsequent_indent="  "))
