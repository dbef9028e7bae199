"""The command line: `python -m benchmarks run`, `growth`, `draws`, `memory`, `hunt`, `walk`, `arrays`, `freeze`, ..."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks import hunt
from benchmarks.contestants import BY_NAME, CONTESTANTS, installed
from benchmarks.contestants.base import Contestant
from benchmarks.databases import ENGINES
from benchmarks.measure import ROOT, Limits
from benchmarks.workloads import BY_NAME as WORKLOADS_BY_NAME
from benchmarks.workloads import WORKLOADS

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    options.command(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    _run_parser(commands.add_parser("run", help="everybody on every workload: a table of ratios, a chart, JSON"))
    _growth_parser(commands.add_parser("growth", help="time and memory against steps, mechanisms, order and 1/δ"))
    draws = commands.add_parser(
        "draws", help="random DP-SGD settings, wide: time and exactness, beside a peer's Rényi DP"
    )
    draws.add_argument("--cases", type=int, default=1500)
    draws.add_argument("--seed", type=int, default=1)
    draws.add_argument("--intervals", type=int, metavar="EVERY", help="certified intervals of every so many settings")
    draws.set_defaults(command=_draws)
    continuity = commands.add_parser("continuity", help="runs whose second half has hardly more noise: change and time")
    continuity.add_argument("--cases", type=int, default=200)
    continuity.add_argument("--seed", type=int, default=1)
    continuity.set_defaults(command=_continuity)
    roads = commands.add_parser("roads", help="close one way of the table after the other: what each is needed for")
    roads.add_argument("--cases", type=int, default=500)
    roads.add_argument("--seed", type=int, default=1)
    roads.set_defaults(command=_roads)
    laplace = commands.add_parser("laplace", help="Laplace noise on samples, and many distinct releases, beside PLD")
    laplace.add_argument("--cases", type=int, default=70)
    laplace.add_argument("--seed", type=int, default=1)
    laplace.set_defaults(command=_laplace)
    allocation = commands.add_parser("allocation", help="random allocation: bounds and time, beside two peers")
    allocation.set_defaults(command=_allocation)
    looseness = commands.add_parser("looseness", help="few releases beside bounds from both sides of a cut")
    looseness.add_argument("--cases", type=int, default=60)
    looseness.add_argument("--seed", type=int, default=1)
    looseness.set_defaults(command=_looseness)
    memory = commands.add_parser(
        "memory", help="resident memory of a service asked one different question after another"
    )
    memory.add_argument("--questions", type=int, default=20_000)
    memory.set_defaults(command=_memory)
    _hunt_parser(commands.add_parser("hunt", help="search for answers below the truth"))
    walk = commands.add_parser("walk", help="the files, calls and types that a question passes")
    walk.add_argument("question", nargs="?", default="first", choices=["first", "rare", "mixed", "interval", "online"])
    walk.set_defaults(command=_walk)
    arrays = commands.add_parser("arrays", help="many questions together beside a loop, and ε after every step")
    arrays.set_defaults(command=_arrays)
    tools = commands.add_parser("integrations", help="calibration inside Opacus, dp_accounting and JAX Privacy")
    tools.set_defaults(command=_integrations)
    _freeze_parser(commands.add_parser("freeze", help="record answers that must not change unnoticed"))
    _ledger_parser(commands.add_parser("ledger", help="race for a budget, kill while it is spent, and measure speed"))
    return parser


def _run_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="directory for results.md, results.png, results.json")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS_BY_NAME), metavar="WORKLOAD")
    parser.add_argument("--contestant", action="append", choices=list(BY_NAME), metavar="NAME")
    parser.add_argument(
        "--processes", type=int, default=Limits().processes, help="fresh processes for each measurement"
    )
    parser.add_argument(
        "--repetitions", type=int, default=Limits().repetitions, help="the same question again, in each process"
    )
    parser.add_argument("--timeout", type=float, default=Limits().timeout, help="seconds for each process")
    parser.add_argument("--docs", action="store_true", help=f"write table and chart into {PAGE.relative_to(ROOT)}")
    parser.set_defaults(command=_run)


def _growth_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="directory for growth.png and growth.json")
    parser.add_argument("--contestant", action="append", choices=list(BY_NAME), metavar="NAME")
    parser.add_argument("--docs", action="store_true", help=f"draw into {PICTURES.relative_to(ROOT)} as well")
    parser.set_defaults(command=_growth)


def _hunt_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, help="10 if no number of cases is given")
    parser.add_argument(
        "--fast", action="store_true", help="many cases in long-lived processes, the truth in milliseconds"
    )
    parser.add_argument("--cases", type=int, help="so many cases in all, with --fast")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, with --fast")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", default=hunt.LIBRARY, help="a contestant, or the module of a package")
    parser.add_argument("--resume", type=Path, help="a file of an earlier hunt, which goes on where it stopped")
    parser.add_argument("--out", type=Path, default=Path("hunt.json"), help="the file of a new hunt")
    parser.set_defaults(command=_hunt)


def _freeze_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "laws" / "frozen_answers.json")
    parser.add_argument("--again", action="store_true", help="ask the recorded questions, and record what has changed")
    parser.set_defaults(command=_freeze)


def _ledger_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["race", "kill", "interrupt", "speed"])
    parser.add_argument("--engine", action="append", choices=ENGINES, help="both, if none is given")
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--processes", type=int, default=8, help="that race, or write, at once")
    parser.add_argument("--slots", type=int, default=20, help="that are raced for")
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spends", type=int, default=2000, help="of each measurement of speed")
    parser.add_argument("--entries", type=int, default=100_000, help="of the account whose opening is timed")
    parser.set_defaults(command=_ledger)


def _ledger(options: argparse.Namespace) -> None:
    from benchmarks.ledger_runs import run_ledger

    for line in run_ledger(options):
        print(line, flush=True)


def _integrations(options: argparse.Namespace) -> None:
    from benchmarks.integrations import measure

    print(f"{'tool':<34}{'accountant':<10}{'noise':>12}{'above least':>12}{'time':>12}")
    for timed in measure():
        print(timed, flush=True)


def _continuity(options: argparse.Namespace) -> None:
    from benchmarks.continuity import measure

    for line in measure(options.cases, options.seed):
        print(line, flush=True)


def _roads(options: argparse.Namespace) -> None:
    from benchmarks.roads import measure

    for line in measure(options.cases, options.seed):
        print(line, flush=True)


def _walk(options: argparse.Namespace) -> None:
    from benchmarks.walk import walk_of

    print("\n".join(walk_of(options.question).lines()))


def _arrays(_: argparse.Namespace) -> None:
    from benchmarks.arrays import measure

    for line in measure():
        print(line, flush=True)


def _draws(options: argparse.Namespace) -> None:
    from benchmarks.draws import measure, measure_intervals

    every, cases, seed = options.intervals, options.cases, options.seed
    for line in measure_intervals(cases, seed, every) if every else measure(cases, seed):
        print(line, flush=True)


def _laplace(options: argparse.Namespace) -> None:
    from benchmarks.laplace import measure

    for line in measure(options.cases, options.seed):
        print(line, flush=True)


def _allocation(options: argparse.Namespace) -> None:
    from benchmarks.allocation import measure

    for line in measure():
        print(line, flush=True)


def _memory(options: argparse.Namespace) -> None:
    from benchmarks.memory import run

    run(options.questions)


def _freeze(options: argparse.Namespace) -> None:
    from benchmarks.frozen import record, record_again

    if options.again:
        record_again(options.out)
    else:
        record(options.out, cases=options.cases, seed=options.seed)


def _run(options: argparse.Namespace) -> None:
    from benchmarks.chart import draw
    from benchmarks.results import as_data, run_all
    from benchmarks.table import details, ratios

    workloads = [workload for workload in WORKLOADS if options.only is None or workload.name in options.only]
    limits = Limits(processes=options.processes, repetitions=options.repetitions, timeout=options.timeout)
    results = run_all(workloads, _contestants(options, CONTESTANTS), limits)
    directory: Path = options.out
    directory.mkdir(parents=True, exist_ok=True)
    table = ratios(results)
    (directory / "results.md").write_text(f"{table}\n\n{details(results)}\n", encoding="utf-8")
    (directory / "results.json").write_text(
        json.dumps(as_data(results), indent=1, ensure_ascii=False), encoding="utf-8"
    )
    draw(results, directory / "results.png")
    if options.docs:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
        if options.only is None and options.contestant is None:
            draw(results, PICTURES / "time.svg")
    print(table)


def _growth(options: argparse.Namespace) -> None:
    from benchmarks.growth import draw, grown, write

    present = [contestant for contestant in _contestants(options, CONTESTANTS) if installed(contestant)]
    points = grown(present)
    for path in write(points, options.out):
        print(path)
    if options.docs:
        draw(points, PICTURES / "growth.svg")


def _looseness(options: argparse.Namespace) -> None:
    from benchmarks.both_sides.looseness import measure

    for line in measure(options.cases, options.seed):
        print(line)


def _hunt(options: argparse.Namespace) -> None:
    if options.fast or (options.resume is not None and json.loads(options.resume.read_text()).get("fast")):
        _fast_hunt(options)
    if options.resume is not None:
        state, path = hunt.Hunt.resumed(options.resume), options.resume
    else:
        state, path = hunt.Hunt(options.peer, options.seed), options.out
    print(hunt.summary(hunt.run(state, path, minutes=_minutes(options))))
    raise SystemExit(1 if state.findings and state.target == hunt.LIBRARY else 0)


def _fast_hunt(options: argparse.Namespace) -> None:
    from benchmarks import fast_hunt

    if options.resume is not None:
        state, path = fast_hunt.FastHunt.resumed(options.resume), options.resume
    else:
        state, path = fast_hunt.FastHunt(options.seed), options.out
    minutes = options.minutes if options.cases is not None else _minutes(options)
    fast_hunt.run(state, path, cases=options.cases, minutes=minutes, jobs=options.jobs)
    print(fast_hunt.summary(state))
    raise SystemExit(1 if fast_hunt.found(state) else 0)


def _minutes(options: argparse.Namespace) -> float:
    return 10.0 if options.minutes is None else float(options.minutes)


def _contestants(options: argparse.Namespace, known: Sequence[Contestant]) -> list[Contestant]:
    return [contestant for contestant in known if options.contestant is None or contestant.name in options.contestant]


def with_table(page: str, table: str) -> str:
    """Return the page with a new table between its two markers; rows that were not measured again stay."""
    before, begin, rest = page.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"the page has no {BEGIN} and {END}")
    new = {_first_cell(line): line for line in table.splitlines()}
    lines = old.strip().splitlines()
    if {_first_cell(line) for line in lines} >= set(new) and _columns(lines) == _columns(table.splitlines()):
        table = "\n".join(new.get(_first_cell(line), line) for line in lines)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def _first_cell(line: str) -> str:
    """Return what names a row of the table; other lines stand for themselves."""
    return line[: line.index("|", 1)] if line.startswith("|") else line


def _columns(lines: Sequence[str]) -> str:
    """Return the head of the table."""
    return next((line for line in lines if line.startswith("|")), "")


if __name__ == "__main__":
    main()
