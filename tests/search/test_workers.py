"""Several workers on one study: each trial is done once, and none is lost."""

import json
import shlex
import signal
import time

import sqlalchemy

from linoss.training import load_model

TRIALS, STEPS = 7, 200


class Looking:
    """A look into a storage, from outside."""

    def __init__(self, url, study):
        self.study, url = study, url.replace("postgresql:", "postgresql+psycopg:")
        self.engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)

    def attempts(self):
        """(number, state) of all attempts at trials."""
        query = (
            "SELECT a.value_json, t.state FROM trials t "
            "JOIN studies s ON s.study_id = t.study_id AND s.study_name = :study "
            "JOIN trial_user_attributes a ON a.trial_id = t.trial_id AND a.key = 'linoss:number'"
        )
        if not sqlalchemy.inspect(self.engine).has_table("trial_heartbeats"):
            return []
        with self.engine.connect() as connection:
            found = connection.execute(sqlalchemy.text(query), {"study": self.study})
            return [(int(number), state) for number, state in found]

    def running(self):
        return [state for _, state in self.attempts()].count("RUNNING")


def kill_in_a_trial(victim, looking):
    """When all three are in the middle of one: it is stopped, to be sure, and killed."""
    while True:
        assert victim.poll() is None, victim.communicate()
        if looking.running() == 3:
            victim.send_signal(signal.SIGSTOP)
            if looking.running() == 3:
                victim.kill()
                victim.communicate()
                return
            victim.send_signal(signal.SIGCONT)
        time.sleep(0.1)


def test_one_of_three_is_killed(tmp_path, data, small, worker, postgresql):
    out = tmp_path / "out"
    line = (
        f"search {data} --task classification --out {out} {small} --trials {TRIALS} --no-prune "
        f"--range learning_rate=1e-3..1e-1 --steps {STEPS} --set evaluate_every=10 --silence 4 "
        f"--storage {postgresql} --study killed --json"
    )
    *survivors, victim = [worker("-m", "linoss", *shlex.split(line)) for _ in range(3)]
    while not list(out.glob("trials/*/model-1/weights.safetensors")):
        assert victim.poll() is None, victim.communicate()
        time.sleep(0.1)
    looking = Looking(postgresql, "killed")
    kill_in_a_trial(victim, looking)
    assert victim.returncode == -signal.SIGKILL
    for survivor in survivors:
        stdout, stderr = survivor.communicate()
        assert survivor.returncode == 0, stderr
        assert [trial["state"] for trial in json.loads(stdout)["trials"]] == ["complete"] * TRIALS
    held = looking.attempts()
    assert sorted(n for n, state in held if state == "COMPLETE") == list(range(TRIALS))
    lost = [n for n, state in held if state == "FAIL"]
    assert lost
    assert len(held) == TRIALS + len(lost)
    for trial in json.loads((out / "study.json").read_text())["trials"]:
        run = out / trial["run"]
        steps = [record["step"] for record in load_model(run / "model-1").history]
        assert steps == list(range(10, STEPS + 1, 10))
        assert (run / "report.html").exists()
