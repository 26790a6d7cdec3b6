"""A function of one's own, swept by version 0.1.0."""


def decay(time, rate=1.0, seed=0):
    if time == 4:
        raise ValueError("four")
    return {"left": 2.0 ** (-rate * time) + seed}
