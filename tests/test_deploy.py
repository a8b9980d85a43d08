"""What can be known of `deploy/` without an engine: schemas, names, paths, and that its parts fit together.

`test_deploy_runs.py` starts what can be started.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from modegate.core.policy.model import Limits
from modegate.server.process.serving import BACKLOG, CLEANUP_S
from modegate.server.settings import Settings
from support.deploying import DEPLOY, ROOT, directive, documents, said, steps, text, unit

VARIABLES = {f"MODEGATE_{setting.name.upper()}" for setting in fields(Settings)}
FILES = sorted(
    str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*") if path.is_file()
)  # fmt: skip
ENDING_S = Limits().drain + CLEANUP_S
"""How long a process may take to end."""

COMPOSE: dict[str, Any] = documents("compose.yaml")[0]
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KUBERNETES = [
    "agents.yaml",
    "deployment.yaml",
    "disruption.yaml",
    "namespace.yaml",
    "network.yaml",
    "service.yaml",
]
KUSTOMIZATION = documents("kubernetes/kustomization.yaml")[0]


def seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


# Everything.


@pytest.mark.parametrize("name", FILES)
def test_every_variable_is_a_setting(name: str) -> None:
    assert set(re.findall(r"MODEGATE_[A-Z_]+", text(name))) <= VARIABLES


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of what the steps in the comments work on."""
    ignored = shutil.ignore_patterns("policies", "*.env", "policies.yaml")
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=ignored)
    (tmp_path / "deploy" / "users.acl").unlink(missing_ok=True)
    shutil.copy(ROOT / "policies.yaml", tmp_path)
    return tmp_path


def run(commands: list[str], folder: Path) -> None:
    """Do the steps of a comment, but for those that need an engine."""
    ours = [line for line in commands if not line.startswith(("docker", "kubectl"))]
    assert ours
    subprocess.run(["bash", "-euc", "\n".join(ours)], cwd=folder, check=True)


# The image.


def test_what_the_image_is_made_of_exists_and_reaches_the_builder() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    own = [line.split() for line in said("COPY") if not line.startswith("--from")]
    sources = {source for words in own for source in words[:-1]}
    assert {"pyproject.toml", "proxy", "acp", "policies.yaml"} <= sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignore
    assert "*" in ignore


def test_the_image_is_made_in_stages_and_run_by_nobody_of_rank() -> None:
    assert len(said("FROM")) == 2
    assert [line for line in said("COPY") if line.startswith("--from=build ")]
    assert said("USER") == ["10001:10001"]
    assert "10001" in said("RUN")[-1]


# Compose: https://github.com/compose-spec/compose-spec/blob/main/spec.md

TOP_KEYS = {"name", "services", "networks", "volumes", "configs", "secrets"}
SERVICE_KEYS = {
    "build", "cap_add", "cap_drop", "command", "depends_on", "deploy", "entrypoint", "env_file",
    "environment", "expose", "healthcheck", "image", "init", "labels", "logging", "networks", "ports",
    "read_only", "restart", "secrets", "security_opt", "stop_grace_period", "stop_signal", "sysctls",
    "tmpfs", "ulimits", "user", "volumes", "working_dir",
}  # fmt: skip


def mounts(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for one in service.get("volumes", ()):
        source, target, *_ = one.split(":")
        yield source, target


def test_compose_knows_every_key() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} <= TOP_KEYS
    for service in SERVICES.values():
        assert service.keys() <= SERVICE_KEYS
        assert "image" in service


def test_compose_names_only_what_is_declared() -> None:
    for service in SERVICES.values():
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        named = {source for source, _ in mounts(service) if not source.startswith(".")}
        assert named <= COMPOSE["volumes"].keys()
        for other in service.get("depends_on", ()):
            assert other in SERVICES
        conditions = service.get("depends_on", {})
        for other in conditions if isinstance(conditions, dict) else ():
            assert conditions[other] == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other]


def test_compose_has_all_files_after_its_steps(copied: Path) -> None:
    """And the password that the proxies send is the one that Redis knows."""
    deploy = copied / "deploy"
    run(steps("compose.yaml"), deploy)
    for service in SERVICES.values():
        for source in [source for source, _ in mounts(service) if source.startswith(".")]:
            assert (deploy / source).exists(), source
        if build := service.get("build"):
            assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).is_file()
    lines = (deploy / "modegate.env").read_text(encoding="utf-8").splitlines()
    env = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert env.keys() <= VARIABLES
    assert len(env["MODEGATE_CONTROL_TOKEN"]) == 64
    found = re.fullmatch(r"redis://modegate:([0-9a-f]{64})@redis:6379/0", env["MODEGATE_LOG"])
    assert found
    digest = hashlib.sha256(found[1].encode()).hexdigest()
    users = (deploy / "users.acl").read_text(encoding="utf-8")
    assert f" #{digest} " in users
    assert (deploy / "modegate.env").stat().st_mode & 0o077 == 0


def test_o10_each_process_of_compose_can_be_scraped() -> None:
    """At a port of its own, of loopback alone, that leads to where metrics are served."""
    env = SERVICES["modegate-1"]["environment"]
    proxies = [one for name, one in SERVICES.items() if name.startswith("modegate")]
    ports = [port.split(":") for one in proxies for port in one["ports"]]
    assert {address for address, _, _ in ports} == {"127.0.0.1"}
    assert {inner for _, _, inner in ports} == {env["MODEGATE_CONTROL_PORT"]}
    taken = [one.split(":")[-2] for one in SERVICES["nginx"]["ports"]]
    outer = [published for _, published, _ in ports]
    assert len({*outer, *taken}) == len(outer) + len(taken) == 4
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert " and ".join(outer) in operations


def test_compose_fits_together() -> None:
    """nginx finds the proxies where they are, agents' network reaches no Redis, and endings have time."""
    nginx = text("nginx/modegate.conf")
    ports = {one.rpartition(":")[2] for one in SERVICES["nginx"]["ports"]}
    assert ports == set(re.findall(r"listen (\d+);", nginx)) == {"8484", "8485"}
    assert "127.0.0.1:8485:8485" in SERVICES["nginx"]["ports"]
    proxies = set(re.findall(r"server (modegate-\d):\d+", nginx))
    assert proxies == {name for name in SERVICES if name.startswith("modegate")}
    addresses = [SERVICES[name]["networks"]["inside"]["ipv4_address"] for name in proxies]
    subnet = COMPOSE["networks"]["inside"]["ipam"]["config"][0]["subnet"]
    assert len(set(addresses)) == 2
    assert all(address.startswith(subnet.removesuffix("0/24")) for address in addresses)
    for name in proxies:
        service = SERVICES[name]
        assert seconds(service["stop_grace_period"]) > ENDING_S
        assert service["environment"]["MODEGATE_CONTROL_PORT"] == "8485"
        # Only one network in common, or nginx would know each proxy by two addresses.
        assert set(service["networks"]) & set(SERVICES["nginx"]["networks"]) == {"inside"}
    assert SERVICES["redis"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"]["internal"] is True


# Kubernetes.


def manifests(kind: str) -> list[dict[str, Any]]:
    found = [one for name in KUBERNETES for one in documents(f"kubernetes/{name}")]
    return [one for one in found if one["kind"] == kind]


def pod() -> dict[str, Any]:
    (deployment,) = manifests("Deployment")
    found: dict[str, Any] = deployment["spec"]["template"]
    return found


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("name", KUBERNETES)
def test_manifests_fit_their_schemas(name: str, version: str) -> None:
    for one in documents(f"kubernetes/{name}"):
        kubernetes_validate.validate(one, version, strict=True)


def test_kustomization_has_all_files_after_its_steps(copied: Path) -> None:
    folder = copied / "deploy" / "kubernetes"
    run(steps("kubernetes/kustomization.yaml"), copied)
    files = KUSTOMIZATION["resources"] + KUSTOMIZATION["configMapGenerator"][0]["files"]
    files += KUSTOMIZATION["secretGenerator"][0]["envs"]
    assert [name for name in files if not (folder / name).is_file()] == []
    assert {*KUSTOMIZATION["resources"], "agents.yaml"} == set(KUBERNETES)
    secret = (folder / "secret.env").read_text(encoding="utf-8")
    names = re.findall(r"^(\w+)=", secret, re.MULTILINE)
    assert set(names) == {"MODEGATE_CONTROL_TOKEN", "MODEGATE_LOG"}


def test_the_pod_names_only_what_exists() -> None:
    spec = pod()["spec"]
    (container,) = spec["containers"]
    assert container["image"] == KUSTOMIZATION["images"][0]["name"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"agents": 8484, "control": 8485}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
    generated = KUSTOMIZATION["configMapGenerator"][0]
    assert volumes["policies"]["configMap"]["name"] == generated["name"]
    secret = container["envFrom"][0]["secretRef"]["name"]
    assert secret == KUSTOMIZATION["secretGenerator"][0]["name"]
    # With a hash in their names a change would be a new pod, and of the policy it need not be.
    for made in (generated, KUSTOMIZATION["secretGenerator"][0]):
        assert made["options"] == {"disableNameSuffixHash": True}
    env = {one["name"]: one["value"] for one in container["env"]}
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(Path(env["MODEGATE_POLICIES"]).parent) in mounted
    assert not any("subPath" in mount for mount in container["volumeMounts"])
    before = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] > before + ENDING_S


def test_services_and_networks_meet_the_pod() -> None:
    labels = pod()["metadata"]["labels"].items()
    (deployment,) = manifests("Deployment")
    (disruption,) = manifests("PodDisruptionBudget")
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [disruption["spec"]["selector"]["matchLabels"]]
    selectors += [service["spec"]["selector"] for service in manifests("Service")]
    inward, outward = sorted(manifests("NetworkPolicy"), key=lambda one: "egress" in one["spec"])
    selectors += [inward["spec"]["podSelector"]["matchLabels"]]
    selectors += [outward["spec"]["egress"][0]["to"][0]["podSelector"]["matchLabels"]]
    for selector in selectors:
        assert selector.items() <= labels
    allowed = {
        str(rule["from"][0]["podSelector"]["matchLabels"]): [port["port"] for port in rule["ports"]]
        for rule in inward["spec"]["ingress"]
    }
    assert allowed == {
        "{'modegate/agent': 'true'}": [8484],
        "{'modegate/operator': 'true'}": [8485],
    }
    assert outward["spec"]["egress"][0]["ports"] == [{"port": 8484, "protocol": "TCP"}]
    assert outward["spec"]["podSelector"]["matchLabels"] == {"modegate/agent": "true"}


def test_people_reach_control_under_the_names_of_its_service() -> None:
    (container,) = pod()["spec"]["containers"]
    env = {one["name"]: one["value"] for one in container["env"]}
    name, space = "modegate-control", KUSTOMIZATION["namespace"]
    assert name in [service["metadata"]["name"] for service in manifests("Service")]
    names = [name, f"{name}.{space}", f"{name}.{space}.svc", f"{name}.{space}.svc.cluster.local"]
    assert env["MODEGATE_HOSTS"].split(",") == names


def test_the_pod_may_do_nothing() -> None:
    """As the restricted level of the Pod Security Standards wants it, and the namespace enforces."""
    (namespace,) = manifests("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = pod()["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert (
        f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}"
        in said("USER")
    )
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "emptyDir"}
    assert spec["automountServiceAccountToken"] is False


# systemd: the names of systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5).

DIRECTIVES = {
    "Unit": {"Description", "Documentation", "Wants", "After", "StartLimitIntervalSec"},
    "Service": {
        "Type", "Environment", "EnvironmentFile", "ExecStartPre", "ExecStart", "ExecReload", "Restart",
        "RestartSec", "RestartPreventExitStatus", "KillMode", "TimeoutStopSec", "LimitNOFILE", "DynamicUser",
        "User",
        "StateDirectory", "StateDirectoryMode", "UMask", "NoNewPrivileges", "CapabilityBoundingSet",
        "AmbientCapabilities", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices",
        "ProtectClock", "ProtectHostname", "ProtectControlGroups", "ProtectKernelLogs",
        "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProcSubset",
        "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
        "LockPersonality", "MemoryDenyWriteExecute", "SystemCallArchitectures", "SystemCallFilter",
        "SystemCallErrorNumber",
    },
    "Socket": {
        "ListenStream", "FileDescriptorName", "Backlog", "TriggerLimitIntervalSec", "TriggerLimitBurst",
    },
    "Install": {"WantedBy"},
}  # fmt: skip
FEW_VALUES = {
    "Type": {"exec"},
    "Restart": {"on-failure"},
    "KillMode": {"mixed"},
    "ProtectSystem": {"strict"},
    "ProtectProc": {"invisible"},
    "ProcSubset": {"pid"},
    "SystemCallArchitectures": {"native"},
}


UNITS = ("modegate.service", "modegate.socket")


@pytest.mark.parametrize("of", UNITS)
def test_the_unit_is_spelled_right(of: str) -> None:
    for section, name, value in unit(of):
        assert name in DIRECTIVES[section], name
        if name.startswith(("Private", "Protect", "Restrict")) and name not in FEW_VALUES:
            assert value == "yes" or name == "RestrictAddressFamilies"
        assert value in FEW_VALUES.get(name, {value}), name


def test_the_unit_is_verified_by_systemd(tmp_path: Path) -> None:
    """Where systemd's own check is at hand; without it the table above has to do."""
    if verify := shutil.which("systemd-analyze"):
        for name in UNITS:
            there = text(f"systemd/{name}").replace("/opt/modegate/bin/modegate", "/bin/true")
            (tmp_path / name).write_text(there, encoding="utf-8")
        paths = [tmp_path / name for name in UNITS]
        done = subprocess.run([verify, "verify", *paths], capture_output=True, text=True)
        assert "modegate." not in done.stderr, done.stderr


def test_o6_the_socket_unit_opens_what_the_service_would() -> None:
    of = "modegate.socket"
    settings = Settings()
    assert directive("ListenStream", of) == [f"{settings.host}:{settings.port}"]
    assert directive("Backlog", of) == [str(BACKLOG)]
    assert directive("FileDescriptorName", of) == ["agents"]
    assert of in directive("After")[0].split()
    install = next(line for line in steps("systemd/modegate.service") if "/etc/systemd" in line)
    assert "modegate.{socket,service}" in install


def test_the_unit_gives_its_process_time_and_a_place() -> None:
    assert float(directive("TimeoutStopSec")[0]) > ENDING_S
    state = directive("StateDirectory")[0]
    assert f"MODEGATE_STATE_DIR=/var/lib/{state}" in directive("Environment")
    installed = [line for line in steps("systemd/modegate.service") if "policies.yaml" in line]
    policies = f"MODEGATE_POLICIES={installed[0].split()[-1]}"
    assert policies in directive("Environment")
    (venv,) = re.findall(r"venv (\S+)", "\n".join(steps("systemd/modegate.service")))
    assert all(line.startswith(f"{venv}/bin/modegate ") for line in directive("ExecStart"))


def test_the_unit_does_not_restart_what_no_restart_mends() -> None:
    assert directive("RestartPreventExitStatus") == ["2"]


def test_yaml_has_no_duplicates() -> None:
    """Which PyYAML would not notice."""
    for name in [one for one in FILES if one.endswith(".yaml")]:
        for node in yaml.compose_all(text(name), Loader=yaml.SafeLoader):
            no_duplicates(node, name)


def no_duplicates(node: yaml.Node | None, name: str) -> None:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), (name, keys)
        for _, value in node.value:
            no_duplicates(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            no_duplicates(value, name)
