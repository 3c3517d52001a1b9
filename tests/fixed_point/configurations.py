"""The configurations of the fixed point: small trainings and simulations that together run every kind of plan, schedule, sharding, precision,
optimizer, update policy and backend. A configuration is a name and the arguments of one call of `trireme`.

Names are stable, because digests of two versions of the program are compared by name. `portable` marks results that do not depend on the
processor: losses in double precision, counted bytes, seconds of modelled clocks."""

from dataclasses import dataclass, field

BASE = """
name = "fixed-point"
seed = 3
batch = 16
length = "4 steps"
evaluate_every = "2 steps"
time_limit = "120 s"

[model]
name = "mlp"
options.hidden = 24

[data]
name = "mnist"
train_limit = 128
test_limit = 32

[optimizer]
learning_rate = 0.05
"""

CLUSTERS = ""  # the folder of cluster files; set by all_configurations
CLUSTER = "8xp100-pcie.cluster.toml"
SERVERS = "64xcpu-1g.cluster.toml"
PIPELINES = ("pipeline", "gpipe", "1f1b", "interleaved", "zero-bubble", "pipedream", "2bw", "branches")


@dataclass
class Configuration:
    name: str
    arguments: list
    portable: bool = False
    processes: int = 1  # 1: threads
    seconds_count: bool = False  # on a modelled clock: the digest also has the seconds
    is_simulation: bool = False
    in_order: bool = True  # False: replicas on threads report steps in any order
    balanced: list = field(default_factory=list)  # arguments that make the plan, with stages balanced by datasheets and not by measurements
    settings: dict = field(default_factory=dict)


def modelled_machines():
    return ["--backend", "virtual", "--cluster", f"{CLUSTERS}/{SERVERS}"]


def train(name, plan, devices=1, portable=False, processes=1, seconds_count=False, extra=(), **settings):
    settings = {key.replace("__", "."): value for key, value in settings.items()}
    balanced = []
    if any(schedule in plan for schedule in PIPELINES) and not extra:
        balanced = ["--plan", plan, "--devices", str(max(devices, processes)), *modelled_machines()]
        plan = "planned/plan.json"
    arguments = ["train", "e.toml", "--plan", plan]
    if processes == 1:
        arguments += ["--devices", str(devices)]
    else:
        arguments = ["launch", "-n", str(processes), *arguments]
    in_order = not name.startswith("policy/threads")
    if "update.plan" in settings and settings["update.plan"] in PIPELINES:
        balanced = ["--plan", settings["update.plan"], "--devices", str(settings["update.plan_devices"]), *modelled_machines()]
        settings["update.plan"] = "planned/plan.json"
    return Configuration(name, [*arguments, *extra], portable, processes, seconds_count, in_order=in_order, balanced=balanced,
                         settings=settings)


MODELS = {
    "mlp": {},
    "dropout-mlp": {"model": "dropout-mlp"},
    "tied-mlp": {"model": "tied-mlp"},
    "skip": {"model": "skip"},
    "convnet": {"model": "mnist-convnet", "batch": 8},
    "resnet": {"model": "cifar-resnet18", "model__options__width": 4, "batch": 8},
    "inception": {"model": "inception", "model__options__width": 4, "batch": 8},
    "vit": {"model": "transformer-classifier", "model__options__layers": 2, "model__options__width": 16, "model__options__heads": 2,
            "model__options__patch": 7, "batch": 8},
    "lstm": {"model": "lstm-lm", "model__options__width": 16, "data__name": "generated-text", "data__sequence": 8, "batch": 8},
    "gpt": {"model": "transformer-lm", "model__options__layers": 2, "model__options__width": 16, "model__options__heads": 2,
            "data__name": "generated-text", "data__sequence": 8, "batch": 8},
}

PLANS = [  # name, devices
    ("single", 1), ("data", 2), ("data", 3), ("tensor", 2), ("tensor", 4), ("pipeline", 2), ("hybrid:tensor", 4), ("hybrid:pipeline", 4),
    ("gpipe,micro_batches=4", 2), ("1f1b,micro_batches=4", 2), ("1f1b,micro_batches=4", 3), ("interleaved,micro_batches=4", 2),
    ("zero-bubble,micro_batches=4", 2), ("pipedream", 2), ("2bw,micro_batches=4", 2), ("2bw,micro_batches=4", 3),
    ("data=2,pipeline=2,schedule=1f1b,micro_batches=4", 4), ("tensor=2,pipeline=2,schedule=gpipe,micro_batches=2", 4),
    ("data=2,tensor=2,pipeline=2,micro_batches=2", 8), ("single,micro_batches=4", 1), ("data,micro_batches=2", 2),
    ("single,recompute=all", 1), ("1f1b,recompute=all,micro_batches=4", 2), ("gpipe,recompute=except_last,micro_batches=4", 2),
    ("data,speeds=2:1", 2), ("zero1", 2), ("zero2", 2), ("zero3", 2), ("zero3", 3), ("data=2,tensor=2,sharding=zero1", 4),
    ("data=2,tensor=2,sharding=zero3", 4), ("data=2,pipeline=2,schedule=1f1b,micro_batches=4,sharding=zero1", 4),
    ("data=2,pipeline=2,schedule=1f1b,micro_batches=4,sharding=zero2", 4),
    ("data=2,pipeline=2,schedule=gpipe,micro_batches=4,sharding=zero3", 4),
    ("data,compression=bf16", 2), ("data,compression=powersgd:2", 2), ("data=2,pipeline=2,compression=bf16,micro_batches=2", 4),
    ("zero1,micro_batches=2", 2), ("zero3,recompute=all", 2),
]

POLICIES = {  # name: required settings
    "local-sgd,every=2 steps": {}, "local-sgd,every=1 epochs": {}, "local-sgd,every=1 steps,moments=averaged": {},
    "local-sgd,every=2 steps,overlap=1": {}, "local-sgd,every=2 steps,weights=samples,moments=reset": {},
    "async-average": {}, "async-average,share=samples": {}, "partial,quorum=2": {}, "easgd,period=2": {}, "easgd,period=1,shards=2": {},
    "eamsgd,period=2": {"optimizer__momentum": 0}, "hogwild": {"optimizer__momentum": 0},
    "downpour": {"optimizer__momentum": 0},
    "downpour,fetch_every=2,push_every=2,shards=2,server_optimizer=adagrad": {"optimizer__momentum": 0},
    "shat,period=2": {}, "diloco,every_steps=2": {}, "streaming-diloco,every_steps=4,fragments=2": {},
    "fedavg,rounds=2,local=1 epochs": {}, "fedavg,rounds=3,local=2 steps,fraction=0.5": {}, "fedprox,rounds=2,local=2 steps": {},
    "fedadam,rounds=2,local=2 steps": {}, "fedadam,rounds=2,local=2 steps,server_optimizer=yogi": {},
}
# policies whose result in real time does not depend on the order of arrival
ORDERLY = ["local-sgd,every=2 steps", "local-sgd,every=1 steps,moments=averaged", "local-sgd,every=2 steps,overlap=1",
           "diloco,every_steps=2", "streaming-diloco,every_steps=4,fragments=2", "fedavg,rounds=2,local=1 epochs"]

OPTIMIZERS = {
    "sgd": {"momentum": 0}, "momentum": {"momentum": 0.9, "weight_decay": 0.01}, "nesterov": {"momentum": 0.9, "nesterov": "true"},
    "adam": {"kind": "adam"}, "adamw": {"kind": "adamw", "weight_decay": 0.1}, "adagrad": {"kind": "adagrad"},
    "rmsprop": {"kind": "rmsprop"},
    "lars": {"kind": "lars"}, "lamb": {"kind": "lamb"}, "clipped": {"kind": "adam", "clip_norm": 0.1}, "ema": {"kind": "adam", "ema": 0.9},
}


def plans():
    for plan, devices in PLANS:
        for precision in ("fp64", "fp32", "bf16"):
            yield train(f"plan/{precision}/{devices}/{plan}", plan, devices, portable=precision == "fp64", precision=precision)
        if "zero" not in plan and "compression" not in plan and devices > 1:
            yield train(f"plan/private/{devices}/{plan}", plan, devices, portable=True, precision="fp64", replicas="private")


def models():
    for model, settings in MODELS.items():
        if model == "mlp":
            continue
        for plan, devices in (("single", 1), ("data", 2), ("tensor", 2), ("1f1b,micro_batches=2", 2), ("zero3", 2)):
            yield train(f"model/{model}/{devices}/{plan}", plan, devices, portable=True, precision="fp64", **settings)
    for scope in ("global", "deferred"):
        yield train(f"model/resnet/batch_norm={scope}", "data", 2, portable=True, precision="fp64", batch_norm=scope, **MODELS["resnet"])
    for plan in ("tensor,split=height", "branches"):
        model = "inception" if plan == "branches" else "convnet"
        yield train(f"model/{model}/{plan}", plan, 2, portable=True, precision="fp64", **MODELS[model])
    yield train("model/gpt/sequence", "tensor,split=sequence", 2, portable=True, precision="fp64", **MODELS["gpt"])


def optimizers():
    for name, options in OPTIMIZERS.items():
        settings = {f"optimizer__{key}": value for key, value in options.items()}
        for plan, devices in (("data", 2), ("zero1", 2)):
            yield train(f"optimizer/{name}/{plan}", plan, devices, portable=True, precision="fp64", **settings)
    for schedule in ("cosine", "step", "polynomial"):
        decay = {"optimizer__decay_every": "2 steps"} if schedule == "step" else {}
        yield train(f"optimizer/{schedule}", "data", 2, portable=True, precision="fp64", optimizer__schedule=schedule, **decay)


def policies():
    clock = {"update__virtual__step_seconds": "10 ms", "update__virtual__sample_seconds": "1 ms", "update__virtual__jitter": 0.5,
             "update__virtual__link__bandwidth": "10 MB/s", "update__virtual__link__latency": "1 ms"}
    for policy, settings in POLICIES.items():
        modelled = dict(clock)
        if policy == "hogwild":
            modelled = {key: value for key, value in clock.items() if "link" not in key}
        yield train(f"policy/modelled/{policy}", policy, 3, portable=True, seconds_count=True, precision="fp64", **settings, **modelled)
        yield train(f"policy/modelled/own-samples/{policy}", policy, 4, portable=True, seconds_count=True, precision="fp64",
                    update__shares="samples", **settings, **modelled)
    for policy in ORDERLY:
        for inner, devices in (("single", 1), ("pipeline", 2), ("tensor", 2)):
            inner_settings = {"update__plan": inner, "update__plan_devices": devices} if devices > 1 else {}
            yield train(f"policy/threads/{inner}/{policy}", policy, 2 * devices, portable=True, precision="fp64", **inner_settings)
    for policy in ("local-sgd,every=2 steps", "diloco,every_steps=2", "fedavg,rounds=2,local=1 epochs"):
        for inner in ("zero1", "zero3"):
            yield train(f"policy/threads/{inner}/{policy}", policy, 4, portable=True, precision="fp64", update__plan=inner,
                        update__plan_devices=2)
    yield train("policy/threads/bf16/local-sgd", "local-sgd,every=2 steps", 2, precision="bf16")
    yield train("policy/threads/resnet/local-sgd", "local-sgd,every=2 steps", 2, portable=True, precision="fp64", **MODELS["resnet"])
    yield train("policy/threads/lstm/local-sgd", "local-sgd,every=2 steps", 2, portable=True, precision="fp64", **MODELS["lstm"])
    for plan in ("synchronous", "synchronous,shares=speed"):
        yield train(f"policy/modelled/{plan}", plan, 3, portable=True, seconds_count=True, precision="fp64", device_speeds="1,1,0.5",
                    **clock)


def processes():
    for plan in ("data", "tensor", "1f1b,micro_batches=2", "zero1", "zero3", "data,compression=powersgd:2"):
        yield train(f"gloo/2/{plan}", plan, portable=True, processes=2, precision="fp64")
    yield train("gloo/4/hybrid", "hybrid:pipeline", portable=True, processes=4, precision="fp64")


def modelled_time():
    for plan, devices in (("data", 4), ("tensor", 2), ("1f1b,micro_batches=4", 2), ("zero1", 4), ("zero3", 2), ("hybrid:pipeline", 4),
                          ("data", 16), ("pipedream", 2), ("zero-bubble,micro_batches=4", 3), ("interleaved,micro_batches=4", 2)):
        extra = modelled_machines()
        yield train(f"virtual/{devices}/{plan}", plan, devices, portable=True, seconds_count=True, extra=extra, precision="fp64")


def simulations():
    plans_by_devices = {}
    for plan, devices in PLANS:
        if "powersgd" not in plan:
            plans_by_devices.setdefault(devices, []).append(plan)
    for cluster in (CLUSTER, SERVERS):
        for devices, strategies in plans_by_devices.items():
            if devices == 3 and cluster == CLUSTER:
                continue
            for model in ("mlp", "convnet", "resnet", "vit", "lstm", "gpt"):
                arguments = ["simulate", "e.toml", "--cluster", f"{CLUSTERS}/{cluster}", "--devices", str(devices),
                             "--strategies", *strategies]
                settings = {key.replace("__", "."): value for key, value in MODELS[model].items()}
                yield Configuration(f"simulate/{cluster.split('.')[0]}/{model}/{devices}", arguments, portable=True, is_simulation=True,
                                    settings=settings)


def all_configurations(clusters):
    global CLUSTERS  # pylint: disable=global-statement
    CLUSTERS = clusters
    found = [*plans(), *models(), *optimizers(), *policies(), *processes(), *modelled_time(), *simulations()]
    names = [c.name for c in found]
    assert len(set(names)) == len(names), "names are distinct"
    return found
