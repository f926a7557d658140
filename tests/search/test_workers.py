"""Several workers on one study: each trial is done once, and none is lost."""

import json
import shlex
import signal
import time

import optuna

from linoss.training import load_model

TRIALS, STEPS = 7, 200


def attempts(url):
    """(number, state) of all attempts at trials."""
    url = url.replace("postgresql:", "postgresql+psycopg:").replace("{", "{{").replace("}", "}}")
    storage = optuna.storages.RDBStorage(url)
    trials = optuna.load_study(study_name="killed", storage=storage).get_trials(deepcopy=False)
    storage.remove_session()
    storage.engine.dispose()
    return [(trial.user_attrs["linoss:number"], trial.state.name) for trial in trials]


def running(url):
    return [state for _, state in attempts(url)].count("RUNNING")


def kill_in_a_trial(victim, url):
    """When all three are in the middle of one: it is stopped, to be sure, and killed."""
    while True:
        assert victim.poll() is None, victim.communicate()
        if running(url) == 3:
            victim.send_signal(signal.SIGSTOP)
            if running(url) == 3:
                victim.kill()
                victim.communicate()
                return
            victim.send_signal(signal.SIGCONT)
        time.sleep(0.1)


def test_one_of_three_is_killed(tmp_path, data, small, worker, postgresql):
    out = tmp_path / "out"
    line = (
        f"search {data} --task classification --out {out} {small} --trials {TRIALS} --no-prune "
        f"--range learning_rate=1e-3..1e-1 --steps {STEPS} --set evaluate_every=10 "
        f"--set patience=99 --silence 4 "
        f"--storage {postgresql} --study killed --json"
    )
    *survivors, victim = [worker("-m", "linoss", *shlex.split(line)) for _ in range(3)]
    while not list(out.glob("trials/*/model-1/weights.safetensors")):
        assert victim.poll() is None, victim.communicate()
        time.sleep(0.1)
    kill_in_a_trial(victim, postgresql)
    assert victim.returncode == -signal.SIGKILL
    for survivor in survivors:
        stdout, stderr = survivor.communicate()
        assert survivor.returncode == 0, stderr
        assert [trial["state"] for trial in json.loads(stdout)["trials"]] == ["complete"] * TRIALS
    held = attempts(postgresql)
    assert sorted(n for n, state in held if state == "COMPLETE") == list(range(TRIALS))
    lost = [n for n, state in held if state == "FAIL"]
    assert lost
    assert len(held) == TRIALS + len(lost)
    for trial in json.loads((out / "study.json").read_text())["trials"]:
        run = out / trial["run"]
        steps = [record["step"] for record in load_model(run / "model-1").history]
        assert steps == list(range(10, STEPS + 1, 10))
        assert (run / "report.html").exists()
