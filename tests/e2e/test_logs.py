"""What counts as trained, and as failed for a reported reason. Needs no environment: not marked ``e2e``."""

from __future__ import annotations

from e2e.logs import REPORTED, Outcome, ppo_problems, sft_problems


def sft_log(*losses):
    return "\n".join(f"step:{step} - train/loss:{loss} - train/lr:1e-05" for step, loss in enumerate(losses, 1))


def ppo_log(*rows):
    """Lay steps out as verl's console logger does, numpy scalars included."""
    return "\n".join(
        f"(TaskRunner pid=1) step:{step} - actor/pg_loss:np.float64(-0.01) - actor/grad_norm:{row.get('grad', 0.5)}"
        f" - actor/kl_loss:{row.get('first', 0.0)} - actor/ppo_kl:{row.get('kl', 0.0)}"
        f" - training/rollout_probs_diff_max:{row.get('diff', 1e-7)} - critic/score/mean:np.float64({row['reward']})"
        for step, row in enumerate(rows, 1)
    )


def done(log, code=0):
    return Outcome("run", code, 1.0, log)


def test_a_falling_loss_is_training():
    assert sft_problems(done(sft_log(7.0, 6.5, 5.0)), 3) == []


def test_what_is_not_training():
    assert "does not fall" in sft_problems(done(sft_log(7.0, 6.9)), 2)[0]
    assert "not finite" in sft_problems(done(sft_log(7.0, "nan")), 2)[0]
    assert "1 steps were logged, 2 wanted" in sft_problems(done(sft_log(7.0)), 2)
    assert "exit code 1" in sft_problems(done(sft_log(7.0, 5.0), code=1), 2)[0]
    assert sft_problems(done(""), 1)


def test_a_rising_reward_is_training():
    log = ppo_log({"reward": 0.2}, {"reward": 0.3}, {"reward": 0.4})
    assert ppo_problems(done(log), 3, reward_rises=True) == []
    assert done(log).series("critic/score/mean") == [0.2, 0.3, 0.4]


def test_a_flat_reward_is_not():
    log = ppo_log({"reward": 0.2}, {"reward": 0.2})
    assert "does not rise" in ppo_problems(done(log), 2, reward_rises=True)[0]
    assert ppo_problems(done(log), 2, reward_rises=False) == []


def test_wrong_log_probs_are_a_problem_although_all_is_finite():
    for row, word in (
        ({"first": 0.43}, "kl_loss"),
        ({"kl": -0.17}, "ppo_kl"),
        ({"diff": 0.3}, "rollout"),
        ({"grad": 0.0}, "gradient"),
    ):
        [problem] = ppo_problems(done(ppo_log({"reward": 0.2, **row})), 1, reward_rises=False)
        assert word in problem


def test_only_reported_errors_have_a_name():
    for name, text in REPORTED.items():
        assert done(f"Traceback\nValueError: {text}\n", 1).reported == [name]
    other = done("Traceback (most recent call last):\nKeyError: 'raw_prompt'\n", 1)
    assert other.reported == []
    assert other.error == "KeyError: 'raw_prompt'"


def test_the_first_of_several_errors_comes_first():
    log = f"x\n{REPORTED['bf16']}\n{REPORTED['no-flash-attn']}\n"
    assert done(log, 1).reported == ["bf16", "no-flash-attn"]


def test_rays_wrapping_is_not_the_error():
    log = "RuntimeError: the cause\nray.exceptions.RayTaskError(RuntimeError): ray::main()\n"
    assert done(log, 1).error == "RuntimeError: the cause"
