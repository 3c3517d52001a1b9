// Trireme as a library: builds a model from layers, verifies a plan and trains under it.
#include <trireme/trireme.h>

#include <cstdio>

using namespace trireme;

int main() {
  ModelBuilder builder("my-mlp");
  NodeId image = builder.input("data", {1, 28, 28}), target = builder.input("target", {});
  NodeId x = builder.layer<Linear>({builder.layer<Flatten>({image}, "flatten")}, "hidden", 784, 128);
  NodeId logits = builder.layer<Linear>({builder.layer<Relu>({x}, "relu")}, "out", 128, 10);
  Model model = builder.finish(logits, builder.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));

  const TaskData data = open_data_set("name = \"digits\"\ntrain_limit = 4000\ntest_limit = 1000");
  const Workload workload = Workload::of(model, data, R"(
    batch = 64
    length = "1 epochs"
    optimizer = { kind = "sgd", learning_rate = 0.1, momentum = 0.9 }
  )");

  const Plan plan = workload.plan("data", 2);
  const Verification verified = workload.verify(plan);
  const TrainingResult result = workload.train(plan);
  std::printf("%s, %s: accuracy %.3f, largest difference from one device %.1e\n", result.plan.c_str(),
              result.status.c_str(), result.evaluations.empty() ? 0 : result.evaluations.back().metrics[0].value,
              verified.parameter_difference);
  return result.ok && verified.ok ? 0 : 1;
}
