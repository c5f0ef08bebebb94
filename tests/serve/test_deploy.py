"""What is in deploy/ starts `regard serve` with options that there are, and its probes are routes of the server."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from regard.cli import app, run
from regard.serve.gate import OPEN_PATHS
from regard.serve.limits import Limits, read_limits
from regard.serve.server import GRACE
from tests.packages import require
from tests.serve.process import KEYS, ROOT, SMALL

pytestmark = pytest.mark.unchecked
FOLDER = ROOT / "deploy"
USER = 10001


def container_lines() -> list[str]:
    """The instructions of the Containerfile, continued lines joined."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def exec_words(instruction: str) -> list[str]:
    """The words of an instruction in its exec form."""
    [line] = [line for line in container_lines() if line.startswith(f"{instruction} ")]
    return yaml.safe_load(line.removeprefix(f"{instruction} "))


def compose_service() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"]["regard"]


def unit_lines() -> dict[str, str]:
    text = (FOLDER / "regard.service").read_text(encoding="utf-8")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def pod() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]


def commands() -> dict[str, list[str]]:
    """The words after `regard serve` in each file."""
    [container] = pod()["containers"]
    assert exec_words("ENTRYPOINT") == ["regard", "serve"]
    program, verb, *words = shlex.split(unit_lines()["ExecStart"])
    assert (Path(program).name, verb) == ("regard", "serve")
    return {
        "Containerfile": exec_words("CMD"),
        "compose.yaml": compose_service()["command"],
        "regard.service": words,
        "kubernetes.yaml": container["args"],
    }


@pytest.mark.parametrize("name", ["Containerfile", "compose.yaml", "regard.service", "kubernetes.yaml"])
def test_the_command_is_one_that_serves(name, tmp_path, capsys):
    words = commands()[name]
    given = typer.main.get_command(app).commands["serve"].make_context("serve", list(words)).params
    assert given["port"] == 8000
    assert given["key_file"] is not None, "others can reach it"
    read_limits(given["settings"] or [])
    (tmp_path / "keys").write_text("\n".join(KEYS))
    here = [re.sub(r".*/keys$", str(tmp_path / "keys"), word) for word in words]
    assert run(["serve", str(SMALL), *here, "--check", "--device", "cpu"]) == 0
    assert "a translator of" in capsys.readouterr().out


def test_nothing_runs_as_root_or_gains_rights():
    lines = container_lines()
    assert lines.index(f"USER {USER}:{USER}") < next(
        place for place, line in enumerate(lines) if line.startswith("ENTRYPOINT")
    )
    assert any(f"--uid {USER}" in line for line in lines if line.startswith("RUN"))
    assert compose_service()["cap_drop"] == ["ALL"]
    assert compose_service()["security_opt"] == ["no-new-privileges:true"]
    assert unit_lines()["DynamicUser"] == unit_lines()["NoNewPrivileges"] == "yes"
    assert pod()["securityContext"]["runAsNonRoot"]
    assert pod()["securityContext"]["runAsUser"] == USER
    [container] = pod()["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_probes_are_routes_that_need_no_key():
    [container] = pod()["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert [probe["path"] for probe in probes.values()] == ["/readyz", "/readyz", "/livez"]
    assert {probe["path"] for probe in probes.values()} <= OPEN_PATHS
    [port] = container["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert port["containerPort"] == 8000
    [check] = [line for line in container_lines() if line.startswith("HEALTHCHECK")]
    assert "http://127.0.0.1:8000/readyz" in check


def test_what_runs_has_the_time_to_finish():
    needed = Limits().deadline + GRACE + Limits().drain_seconds
    assert int(compose_service()["stop_grace_period"].removesuffix("s")) > needed
    assert int(unit_lines()["TimeoutStopSec"]) > needed
    [container] = pod()["containers"]
    settings = [word for word in container["args"] if "=" in word]
    limits = read_limits(settings)
    assert pod()["terminationGracePeriodSeconds"] > limits.deadline + GRACE + limits.drain_seconds


def test_kubernetes_knows_every_field_of_the_deployment():
    validate = require("kubernetes_validate")
    sound = yaml.safe_load((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))
    validate.validate(sound, "1.31", strict=True)
    [container] = sound["spec"]["template"]["spec"]["containers"]
    container["readynessProbe"] = container.pop("readinessProbe")
    with pytest.raises(validate.ValidationError):
        validate.validate(sound, "1.31", strict=True)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)
def test_systemd_understands_the_unit(tmp_path):
    text = (FOLDER / "regard.service").read_text(encoding="utf-8")
    unit = tmp_path / "regard.service"
    unit.write_text(re.sub(r"(?<=ExecStart=)\S+", "/bin/true", text))  # a program that is here
    verify = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("DynamicUser=yes", "DynamicUsr=yes"))
    assert "DynamicUsr" in subprocess.run(verify, capture_output=True, text=True).stderr
