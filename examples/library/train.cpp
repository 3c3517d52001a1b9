// Trireme as a library: builds a model from layers and trains it under a plan.
#include <cstdio>

#include "data/open.h"
#include "plan/named.h"
#include "train/trainer.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

using namespace trireme;

int main() {
  TaskData data = open_data({.name = "digits", .train_limit = 4000, .test_limit = 1000});
  ModelBuilder builder("my-mlp");
  NodeId image = builder.input("data", {1, 28, 28}), target = builder.input("target", {});
  NodeId x = builder.layer<Linear>({builder.layer<Flatten>({image}, "flatten")}, "hidden", 784, 128);
  NodeId logits = builder.layer<Linear>({builder.layer<Relu>({x}, "relu")}, "out", 128, 10);
  Model model = builder.finish(logits, builder.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));

  RunSpec run;
  run.batch = 64;
  run.optimizer = {.learning_rate = 0.1, .momentum = 0.9};
  Plan plan = named_plan("data", model, Cluster::uniform(2), run.batch, {});
  TrainObserver observer;
  RunResult result = train(run, model, data, plan, observer, {false});
  std::printf("%s: accuracy %.3f\n", name_of(result.status), result.test ? result.test->main()->value : 0.0);
  return result.status == RunStatus::ok ? 0 : 1;
}
