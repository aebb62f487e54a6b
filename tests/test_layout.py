"""Data flows one way: a part imports only from the parts before it, the studies from all of them and nothing from the
studies; and ``import isonomy`` alone stays light."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import isonomy
from isonomy.certificates import models
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.shifts import KINDS

SOURCE = Path(isonomy.__file__).parent
ORDER = [
    "escapes",
    "errors",
    "brief",
    "given",
    "options",
    "progress",
    "parallel",
    "engine",
    "files",
    "arithmetic",
    "confidence",
    "population",
    "datasets",
    "similarity",
    "model",
    "networks",
    "trees",
    "enumeration",
    "loading",
    "problem",
    "bounds",
    "attacks",
    "search",
    "certificates",
    "fairness",
    "shift",
    "training",
    "repairing",
    "records",
    "report",
    "auditing",
    "testing",
    "evaluator",
    "monitor",
    "service",
    "cli",
]
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or not path.name.startswith("__"))
ROOT = SOURCE.parents[1]
STUDIES = sorted((ROOT / "studies").glob("*.py"))


def part_of(module: str) -> str:
    """``isonomy.bounds.kernel`` is in the part ``bounds``."""
    return module.split(".")[1] if "." in module else ""


def imports(path: Path, text: str | None = None) -> Iterator[tuple[int, str]]:
    """Every module of the package that a file imports, also inside functions and for types only."""
    package = path.relative_to(SOURCE.parent if path.is_relative_to(SOURCE) else ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8") if text is None else text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "isonomy")
        if isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module or ""]))
            if module == "isonomy":
                yield from ((node.lineno, f"isonomy.{alias.name}") for alias in node.names)
            elif module.split(".")[0] == "isonomy":
                yield node.lineno, module


def test_every_part_has_its_place() -> None:
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert parts == set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_point_one_way(path: Path) -> None:
    own = ORDER.index(path.relative_to(SOURCE).parts[0].removesuffix(".py"))
    for line, module in imports(path):
        part = part_of(module)
        assert part in ORDER, f"{path.name}:{line} imports {module}: name the part that has it"
        assert ORDER.index(part) <= own, f"{path.name}:{line} imports {module}, which comes later"


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_the_studies_name_the_parts_that_they_import(path: Path) -> None:
    for line, module in imports(path):
        assert part_of(module) in ORDER, f"{path.name}:{line} imports {module}"


def test_nothing_in_the_wheel_imports_what_is_not() -> None:
    outside = {"studies", "benchmarks", "tests"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not outside & {name.split(".")[0] for name in names}, f"{path.name}:{getattr(node, 'lineno', 0)}"


CYCLIC: dict[str, set[str]] = {}
"""Packages whose modules still import each other in a circle, with these modules; to be emptied."""


def run_time_imports(tree: ast.AST) -> Iterator[str]:
    """Every module that a file may import when it runs, also inside functions; of ``from a import b`` both names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module
        yield from run_time_imports(node)


def cyclic_modules(modules: dict[str, str]) -> set[str]:
    """The modules, of texts by full name, from which imports lead back to themselves."""
    reached = {name: set(run_time_imports(ast.parse(text))) & set(modules) - {name} for name, text in modules.items()}
    for _ in modules:
        reached = {name: to.union(*(reached[each] for each in to)) for name, to in reached.items()}
    return {name for name, to in reached.items() if name in to}


@pytest.mark.parametrize(
    "package", sorted({path.relative_to(SOURCE).parts[0] for path in MODULES if path.parent != SOURCE})
)
def test_no_module_cycles_inside_a_package(package: str) -> None:
    """The modules of a package can be read in an order in which each needs only earlier ones."""
    paths = [path for path in MODULES if path.is_relative_to(SOURCE / package) and path.name != "__init__.py"]
    texts = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path.read_text("utf-8") for path in paths}
    assert cyclic_modules(texts) == CYCLIC.get(package, set())


def test_cycles_are_seen() -> None:
    lazy, typed = "def f():\n    from p import b\n", "if TYPE_CHECKING:\n    import p.a\n"
    assert cyclic_modules({"p.a": lazy, "p.b": "from p.c import d", "p.c": "import p.a", "p.d": "import p.a"}) == {
        "p.a", "p.b", "p.c"
    }  # fmt: skip
    assert cyclic_modules({"p.a": lazy, "p.b": typed}) == set()


def test_the_check_sees_imports_of_every_form() -> None:
    """Relative, inside a function, for types only."""
    text = "def f():\n    from isonomy.auditing import x\nif TYPE_CHECKING:\n    import isonomy.certificates\n"
    text += "from . import y\n"
    found = {part_of(module) for _, module in imports(SOURCE / "bounds" / "nothing.py", text)}
    assert found == {"auditing", "certificates", "bounds"}


def test_import_isonomy_is_light() -> None:
    """Neither torch nor pandas nor scikit-learn is loaded before it is needed."""
    code = (
        "import sys, isonomy; heavy = {'torch', 'pandas', 'sklearn', 'scipy', 'onnx'} & set(sys.modules); "
        "assert not heavy, heavy; assert 'certify_local' in dir(isonomy)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_every_public_name_exists() -> None:
    assert all(getattr(isonomy, name) is not None for name in isonomy.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = isonomy.nothing


FUNCTIONS = [name for name in isonomy.__all__ if inspect.isfunction(getattr(isonomy, name))]


CLASSES = [name for name in isonomy.__all__ if inspect.isclass(getattr(isonomy, name))]


MOST = {"FairClassifier": 25}
"""More than ten parameters and a table of keywords; an estimator of scikit-learn has what it is made of as its own."""


def parameters(function: Any) -> list[str]:
    """The names of what a function takes, at most ten and keywords that a table of their types names."""
    taken = [each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls")]
    names = list[str]()
    for parameter in taken:
        assert parameter.kind != parameter.VAR_POSITIONAL, parameter
        if parameter.kind == parameter.VAR_KEYWORD:
            table = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            assert table is not None, parameter
            names += function.__globals__[table[1]].__annotations__
        else:
            names.append(parameter.name)
    assert len(taken) <= MOST.get(function.__qualname__, 11), f"{function.__qualname__} has {len(taken)} parameters"
    return names


def explained(function: Any) -> set[str]:
    """The words that a docstring has in code."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"``(.+?)``", inspect.getdoc(function) or "", re.DOTALL))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_of_a_public_function_is_explained(name: str) -> None:
    """By its own name, in code; and nothing is taken that has no name."""
    function = getattr(isonomy, name)
    assert set(parameters(function)) <= explained(function), f"isonomy.{name}"


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_of_a_public_method_is_explained(name: str) -> None:
    """The same for methods; the one parameter of a method is explained by what the method does, and what the library
    asks of a shift by the protocol."""
    kind = getattr(isonomy, name)
    for method, function in inspect.getmembers_static(kind):
        function = getattr(function, "__func__", function)
        if method.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("isonomy."):
            continue
        taken = parameters(function)
        assert inspect.getdoc(function), f"{name}.{method}"
        documented = explained(function) | explained(kind)
        assert len(taken) < 2 or hasattr(Reweighting, method) or set(taken) <= documented, (
            f"{name}.{method}: {set(taken) - documented}"
        )


MADE = [
    "Counterparts",
    "Domain",
    "Enumeration",
    "FairClassifier",
    "Mahalanobis",
    "Part",
    "Schema",
    "SensitiveSubspace",
    "WeightedLp",
]


@pytest.mark.parametrize("name", MADE)
def test_every_parameter_of_a_class_that_callers_make_is_explained(name: str) -> None:
    """By the class itself, or by one that it extends."""
    kind = getattr(isonomy, name)
    words = set().union(*(explained(each) for each in inspect.getmro(kind) if each.__module__.startswith("isonomy")))
    assert set(parameters(kind)) <= words, set(parameters(kind)) - words


@pytest.mark.parametrize(
    ("method", "own"), [("certify", {"shift", "gamma", "delta", "order", "ground"}), ("certify_local", {"delta"})]
)
def test_a_fitted_model_takes_what_the_function_takes(method: str, own: set[str]) -> None:
    """With the same defaults, but for what the training decides."""
    asked = inspect.signature(getattr(isonomy, method)).parameters
    taken = inspect.signature(getattr(isonomy.FairClassifier, method)).parameters
    assert set(asked) - set(taken) <= {"model", "metric"} and set(taken) - set(asked) == {"self"}
    for each in set(asked) & set(taken) - {"people"}:
        assert taken[each].default == (None if each in own else asked[each].default), each


LONGEST = 60
"""Lines of a function, without its signature, its docstring, and what is defined inside."""


def lines(function: ast.AST) -> int:
    """The lines of a function's own body."""
    first, *rest = function.body  # type: ignore[attr-defined]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    begin = (rest[0] if documented and rest else first).lineno
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    inside = [node for node in ast.walk(function) if isinstance(node, definitions) and node is not function]
    outermost = [one for one in inside if not any(one is not each and one in ast.walk(each) for each in inside)]
    end = function.end_lineno or 0  # type: ignore[attr-defined]
    return end - begin + 1 - sum((each.end_lineno or 0) - each.lineno + 1 for each in outermost)


@pytest.mark.parametrize("package", [SOURCE, SOURCE.parent / "isonomy_verify"], ids=lambda path: path.name)
def test_functions_are_short(package: Path) -> None:
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert lines(node) <= LONGEST, f"{path.name}: {node.name} has {lines(node)} lines"
    (sample,) = ast.parse("def f():\n    'd'\n    a = 1\n    def g():\n        b\n        c\n    return a\n").body
    assert lines(sample) == 2


ELSEWHERE = {
    "confidence": "certificates/test_finite_sample.py", "engine": "contracts/engine.py",
    "enumeration": "certificates/test_enumerated.py", "errors": "certificates/test_errors.py",
    "escapes": "cli/test_hostile.py", "given": "test_doors.py", "loading": "networks/test_load_model.py",
    "model": "contracts/model.py", "repairing": "trees/test_repair.py",
}  # fmt: skip
"""Modules without a package that are tested with what they serve."""


def test_the_tests_mirror_the_library() -> None:
    """Each package has a folder of tests; a module without one has a file, or a place that is named here."""
    tests = ROOT / "tests"
    for part in ORDER:
        own = tests / ELSEWHERE.get(part, f"test_{part}.py")
        assert list((tests / part).glob("test_*.py")) or own.is_file(), part
    assert not {part for part in ELSEWHERE if (tests / f"test_{part}.py").exists() or (tests / part).exists()}


@pytest.mark.parametrize("path", [*MODULES, *STUDIES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_module_changes_settings_when_imported(path: Path) -> None:
    """No call at the top level that sets global state of torch or numpy."""
    forbidden = {
        "set_default_dtype",
        "set_num_threads",
        "manual_seed",
        "seterr",
        "set_float32_matmul_precision",
        "seed",
    }
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for call in ast.walk(node) if isinstance(node, ast.Expr | ast.Assign) else []:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                assert call.func.attr not in forbidden, f"{path.name}:{call.lineno}"


_SCRIPTS = ("__main__", "hdf5_dump", "migrations.env")


_WITHOUT_TORCH = (
    "import importlib, importlib.abc, sys\n"
    "class Nowhere(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name.split('.')[0] == 'torch': raise ModuleNotFoundError('No module named torch', name='torch')\n"
    "sys.meta_path.insert(0, Nowhere())\n"
)


def test_everything_but_training_works_without_torch() -> None:
    """Every module outside of the training of networks and the readers of torch's own files is imported with torch made
    unimportable; what needs it says so in one sentence."""
    training = ("gaps", "penalties", "perceptron", "repairing", "trainer")
    own = tuple(f"isonomy.training.{name}" for name in training)
    own += tuple(f"isonomy.networks.{name}" for name in ("torch_", "state_"))
    every = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in MODULES]
    names = [name for name in every if not name.startswith(own) and not name.endswith(_SCRIPTS)]
    code = (
        f"{_WITHOUT_TORCH}"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "import isonomy, numpy as np; from isonomy.errors import MissingPackageError\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "x = np.random.default_rng(0).normal(size=(40, 3)); y = (x.sum(1) > 0).astype(int)\n"
        "network = isonomy.Network.from_sklearn(LogisticRegression().fit(x, y))\n"
        "found = isonomy.certify(network, x, isonomy.WeightedLp(np.ones(3), 2), 0.1, gamma=0.05, progress=None)\n"
        "assert 0 < found.lower <= found.upper < 1, found\n"
        "card = isonomy.FairClassifier(judged=5, progress=None).fit(x, y); assert card.score(x, y) > 0.8\n"
        "open(sys.argv[1], 'wb').close()\n"
        "for ask in (lambda: isonomy.repair(network, None, 1), lambda: isonomy.FairClassifier('u-dif').fit(x, y),\n"
        "            lambda: isonomy.load_network(sys.argv[1]), lambda: isonomy.Network.from_torch(None)):\n"
        "    try: ask()\n"
        "    except MissingPackageError as error:\n"
        "        assert str(error).endswith(\"pip install 'isonomy[torch]'.\"), error\n"
        "    else: raise AssertionError(ask)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, f"{folder}/m.pt"], capture_output=True, text=True, check=False, timeout=300
        )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("hidden", [True, False])
def test_a_star_imports_everything(hidden: bool) -> None:
    """``from isonomy import *`` gives everything, without torch too: who uses what needs it learns what is missing."""
    code = (
        f"{_WITHOUT_TORCH * hidden}"
        "from isonomy import *\n"
        "import isonomy\n"
        "assert {'certify', 'Schema', 'load_model', 'audit', 'repair'} < set(globals())\n"
        "assert set(isonomy.__all__) == {*isonomy._WHERE, '__version__'}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_public_class_has_a_name_of_its_own() -> None:
    """So that whoever meets a name knows which thing it is. The kernel has names of its own, by design."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


MEMBERS = {kind.__name__: kind.__module__ for kind in KINDS.values()}
"""The shifts of the library, and the modules that are theirs."""


def asked(tree: ast.AST) -> set[str]:
    """The names of classes that ``isinstance``, ``issubclass``, ``type(…) is`` or a match asks about."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            if node.func.id in ("isinstance", "issubclass"):
                found |= named(node.args[1])
        elif isinstance(node, ast.Compare) and "type" in named(node.left):
            found |= set().union(*map(named, node.comparators))
        elif isinstance(node, ast.MatchClass):
            found |= named(node.cls)
    return found


def named(tree: ast.AST) -> set[str]:
    """All names in an expression, the last part of dotted ones."""
    nodes = list(ast.walk(tree))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def test_no_module_asks_which_shift_it_has() -> None:
    """A shift owns what it means: elsewhere no line depends on which member it is, in the kernel neither."""
    assert set(MEMBERS) == {"Transport", "Drift", "Composed", "Part", "Stability", "Mix", "Marginals"}
    for path in [*MODULES, *sorted((SOURCE.parent / "isonomy_verify").glob("*.py"))]:
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        foreign = {name for name, own in MEMBERS.items() if own != module}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not asked(tree) & foreign, path.name
    seen = asked(ast.parse("isinstance(a, x.Part | B)\ntype(a) is Transport\nmatch a:\n  case C(): pass"))
    assert {"Part", "B", "Transport", "C"} <= seen


OWN = {
    "Network": ("isonomy.networks", "isonomy.training", "isonomy.certificates.network_tier"),
    "Enumeration": ("isonomy.enumeration", "isonomy.certificates.enumeration_tier"),
    "FoundOnly": ("isonomy.enumeration", "isonomy.certificates.found_tier"),
    "TreeModel": ("isonomy.trees", "isonomy.certificates.tree_tier", "isonomy.loading", "isonomy.repairing"),
    "Layers": ("isonomy_verify.kinds",),
    "Ensemble": ("isonomy_verify.kinds",),
    "TreeBounds": ("isonomy_verify.tree_",),
    "LocalBounds": ("isonomy_verify.local", "isonomy_verify.decisions"),
    "Predictions": ("isonomy_verify.enumeration",),
    "PredictionBounds": ("isonomy_verify.enumeration",),
    "Samples": ("isonomy_verify.enumeration",),
    "SampleBounds": ("isonomy_verify.enumeration",),
}
"""The models of library and kernel, and the modules that are theirs; of a network the training too, which makes it."""


def kinds_compared(tree: ast.AST) -> set[str]:
    """The texts with which a ``kind`` of something is compared."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "kind" in named(node.left):
            texts = [each for right in node.comparators for each in ast.walk(right) if isinstance(each, ast.Constant)]
            found |= {each.value for each in texts if isinstance(each.value, str)}
    return found


def test_no_module_asks_which_model_it_has() -> None:
    """A model owns its bounds, its section of the record and its words: elsewhere no line depends on its kind."""
    assert {kind.__name__ for kind in models.KINDS.values()} == {"Network", "TreeModel", "Enumeration", "FoundOnly"}
    for path in [*MODULES, *sorted((SOURCE.parent / "isonomy_verify").glob("*.py"))]:
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        foreign = {name for name, own in OWN.items() if not module.startswith(own)}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not asked(tree) & foreign and not kinds_compared(tree) & set(models.KINDS), path.name
    assert kinds_compared(ast.parse("a.kind == 'network'\nkind in ('x', 'enumeration')")) >= {"network", "enumeration"}


def test_the_architecture_page_is_true() -> None:
    """It lists every part in the order of imports, every module of the kernel, and classes that exist."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    library, kernel = page.split("src/isonomy_verify/\n")
    listed = re.findall(r"^  ([a-z]+)(?:/|\.py) ", library, re.MULTILINE)
    assert listed == ORDER
    modules = {path.stem for path in (SOURCE.parent / "isonomy_verify").glob("[a-z]*.py")}
    kernel = kernel.split("studies/")[0]
    assert modules <= set(re.findall(r"[a-z_]+", kernel))
    classes = {
        node.name
        for path in SOURCE.parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    glossary = page.split("## Glossary")[1].split("\n\n")[1]
    words = {word for row in glossary.splitlines() for word in re.findall(r"`([A-Z]\w+)`", row.split("|")[1])}
    assert len(words) > 30 and words <= classes
