"""What all requests share: the worker, the models, the limits, and whether the server is ready."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.serve.access import Keys
from regard.serve.catalogue import Catalogue
from regard.serve.explaining import Explainer
from regard.serve.jobs import Jobs
from regard.serve.limits import Limits
from regard.serve.memory import MemoryBudget
from regard.serve.metrics import Metrics
from regard.serve.run_view import RunView
from regard.serve.trust import TrustChecks
from regard.serve.worker_group import WorkerGroup


@dataclass
class ServerState:
    """The parts of a running server."""

    worker: WorkerGroup
    catalogue: Catalogue
    limits: Limits
    keys: Keys = field(default_factory=Keys)
    metrics: Metrics = field(default_factory=Metrics)
    jobs: Jobs | None = None
    """Long work, where a folder for it was named."""
    run: RunView | None = None
    """A run that is shown, where one was named."""
    trust: TrustChecks = field(init=False)
    """Checks how far what is shown can be trusted."""
    explainer: Explainer = field(init=False)
    """Explains answers, beside the worker."""
    memory: MemoryBudget = field(init=False)
    """What bodies and pictures take."""
    is_warm: bool = False
    is_draining: bool = False

    def __post_init__(self) -> None:
        self.trust = TrustChecks(self.limits)
        self.explainer = Explainer(self.catalogue, self.limits)
        self.memory = MemoryBudget(self.limits.memory_bytes)

    @property
    def is_ready(self) -> bool:
        """True if the server accepts requests."""
        return self.is_warm and not self.is_draining and self.worker.alive

    def stop(self) -> None:
        """Finish what runs, and stop all threads."""
        self.worker.stop()
        self.explainer.stop()
        self.trust.stop()
