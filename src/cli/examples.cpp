#include "cli/examples.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

constexpr const char* kRunWithCheckpoints =
    "trireme train examples/mnist.toml --out run --set checkpoint.every=\"1 epochs\"";

// Files in them are in the sources, or an earlier example of the page writes them: tests/cli/pages_test.py
const std::map<std::string, std::vector<const char*>> kExamples{
    {"",
     {"trireme compare examples/mnist.toml --devices 2,4",
      "trireme train examples/mnist.toml --plan data --devices 4"}},
    {"compare",
     {"trireme compare examples/mnist.toml --devices 2,4",
      "trireme compare examples/mnist.toml --strategies data,1f1b --steps 50"}},
    {"train",
     {"trireme train examples/mnist.toml --devices 4 --set length=\"2 epochs\"",
      "trireme train examples/mnist.toml --plan data=2,tensor=2 --steps 50"}},
    {"launch",
     {"trireme launch -n 4 train examples/mnist.toml",
      "trireme launch --hosts a:2,b:2 train examples/mnist.toml --plan 1f1b"}},
    {"launch train",
     {"trireme launch -n 4 train examples/mnist.toml --plan zero1",
      "trireme launch -n 4 --print slurm train examples/mnist.toml"}},
    {"launch compare",
     {"trireme launch -n 4 compare examples/mnist.toml",
      "trireme launch --hosts a,b compare examples/mnist.toml --strategies data,1f1b"}},
    {"serve",
     {"trireme serve examples/federated.toml --spawn 4",
      "trireme serve examples/federated.toml --clients 2 --plan fedavg,rounds=20"}},
    {"join",
     {"trireme join tcp://127.0.0.1:5555 examples/federated.toml",
      "trireme join tcp://127.0.0.1:5555 examples/federated.toml --client 1"}},
    {"simulate",
     {"trireme simulate examples/mnist.toml --devices 2,4,8",
      "trireme simulate examples/mnist.toml --strategies data,tensor --out predicted"}},
    {"verify",
     {"trireme verify examples/mnist.toml --plan data --devices 2",
      "trireme verify examples/mnist.toml --plan tensor=2,data=2 --precision fp32"}},
    {"profile",
     {"trireme profile examples/mnist.toml",
      "trireme profile examples/mnist.toml --devices 8 --budget \"2 min\" --out p.json"}},
    {"measure-epochs",
     {"trireme measure-epochs examples/mnist.toml --batches 64,128,256",
      "trireme measure-epochs examples/mnist.toml --batches 64,256 --out few.json"}},
    {"study",
     {"trireme study epoch-averaging --quick", "trireme study examples/studies/epoch-averaging.study.toml --dry-run"}},
    {"calibrate",
     {"trireme calibrate examples/fit/a100.cluster.toml --rows examples/fit/rows.toml",
      "trireme calibrate my.cluster.toml --rows rows.toml --out fitted.cluster.toml"}},
    {"export",
     {"trireme train examples/mnist.toml --steps 50 --out runs/mnist",
      "trireme export runs/mnist --format onnx -o mnist.onnx", "trireme export runs/mnist -o mnist.safetensors"}},
    {"plan",
     {"trireme plan best examples/mnist.toml --devices 4 --explain",
      "trireme plan show 1f1b examples/mnist.toml --devices 4 --program"}},
    {"plan best",
     {"trireme plan best examples/mnist.toml --devices 4 --explain",
      "trireme plan best examples/mnist.toml --no-trials > best.json"}},
    {"plan graph",
     {"trireme plan graph examples/graph.txt --devices 4 --bandwidth \"1 GB/s\"",
      "trireme plan graph examples/graph.txt --devices 2 --bandwidth \"1 GB/s\""}},
    {"plan project",
     {"trireme plan project examples/mnist.toml --epochs noise=2000 --devices 1..64",
      "trireme plan project examples/mnist.toml --epochs 64:4,256:5 --devices 2,4"}},
    {"plan show", {"trireme plan show 1f1b examples/mnist.toml --devices 4 --program", "trireme plan show resnet18"}},
    {"report",
     {"trireme train examples/mnist.toml --plan single --steps 50 --out runs/one",
      "trireme train examples/mnist.toml --plan data --steps 50 --out runs/two", "trireme report runs/one",
      "trireme report runs/one runs/two --out both.html"}},
    {"checkpoints", {kRunWithCheckpoints, "trireme checkpoints list run", "trireme checkpoints verify run"}},
    {"checkpoints list",
     {kRunWithCheckpoints, "trireme checkpoints list run", "trireme checkpoints list run/checkpoints"}},
    {"checkpoints verify",
     {kRunWithCheckpoints, "trireme checkpoints verify run", "trireme checkpoints verify run/checkpoints"}},
    {"data", {"trireme data list", "trireme data get mnist"}},
    {"data get", {"trireme data get mnist", "trireme data get cifar10 --data-dir data"}},
    {"data list", {"trireme data list", "trireme data list --data-dir data"}},
    {"doctor", {"trireme doctor", "trireme doctor > machine.txt"}},
    {"help", {"trireme help plan best", "trireme help strategies"}},
};

}  // namespace

std::vector<std::string> examples_of(const std::string& path) {
  const auto found = kExamples.find(path);
  if (found == kExamples.end()) return {};
  return {found->second.begin(), found->second.end()};
}

bool name_examples(const std::vector<std::string>& commands) {
  return std::any_of(commands.begin(), commands.end(),
                     [](const std::string& command) { return command.find(" examples/") != command.npos; });
}

}  // namespace trireme
