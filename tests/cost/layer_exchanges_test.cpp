// The exchanges that a layer states (Layer::exchanges) are those that its calls make, for every option that
// communicates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "cost/measured_call.h"
#include "model/layer_cases.h"
#include "support/ranks.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kSamples = 4;
constexpr int kDevice = 78;  ///< device of the memory accounting; used only here

struct ExchangedBytes {
  RedistributionKind kind;
  double bytes;
  friend bool operator==(const ExchangedBytes&, const ExchangedBytes&) = default;
};

std::ostream& operator<<(std::ostream& out, const ExchangedBytes& exchanged) {
  return out << name_of(exchanged.kind) << ' ' << exchanged.bytes;
}

/// Forwards to another communicator and records the operations; of messages it records only those sent.
class Recorder final : public Communicator {
 public:
  explicit Recorder(Communicator& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void all_reduce(at::Tensor& tensor, ReduceOp op) override {
    note(RedistributionKind::all_reduce, tensor, 1);
    group_.all_reduce(tensor, op);
  }
  void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) override {
    note(RedistributionKind::all_gather, input, size());
    group_.all_gather(input, outputs);
  }
  void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) override {
    note(RedistributionKind::reduce_scatter, output, size());
    group_.reduce_scatter(inputs, output);
  }
  void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) override {
    note(RedistributionKind::all_to_all, inputs[0], size());
    group_.all_to_all(inputs, outputs);
  }
  void broadcast(at::Tensor&, int) override { throw std::logic_error("no layer broadcasts"); }
  void send(const at::Tensor& tensor, int to, int64_t tag) override {
    note(RedistributionKind::send_receive, tensor, 1);
    group_.send(tensor, to, tag);
  }
  at::Tensor receive(int from, int64_t tag) override { return group_.receive(from, tag); }
  void barrier() override { group_.barrier(); }
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override { return group_.group(ranks); }
  CommunicationCount count() const override { return group_.count(); }
  void abort(const std::string& reason) override { group_.abort(reason); }
  std::string abort_reason() const override { return group_.abort_reason(); }

  std::vector<ExchangedBytes> exchanged;

 private:
  void note(RedistributionKind kind, const at::Tensor& tensor, int times) {
    exchanged.push_back({kind, double(tensor.numel() * int64_t(tensor.element_size()) * times)});
  }

  Communicator& group_;
};

CallInputs inputs_of(const LayerCase& c, Precision precision) {
  CallInputs inputs{.shapes = c.inputs, .elements = {}, .wanted = {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_integer = c.layer->integers_below(c.inputs, i).has_value();
    inputs.elements.push_back(is_integer ? 8 : compute_size(precision));
    inputs.wanted.push_back(!is_integer && !(c.is_loss() && i == 1));
  }
  return inputs;
}

/// Lists the collectives one by one. Messages are counted as a sum over all ranks, because ranks at the ends send
/// fewer.
std::vector<ExchangedBytes> spelled_out(const LayerExchanges& exchanges, double& messages, int ranks) {
  std::vector<ExchangedBytes> all;
  for (const std::vector<Exchange>* part : {&exchanges.forward, &exchanges.backward})
    for (const Exchange& t : *part) {
      EXPECT_FALSE(t.over_data);
      if (t.kind == RedistributionKind::send_receive) messages += t.times * t.bytes * (ranks - 1);
      else all.insert(all.end(), size_t(t.times), {t.kind, t.bytes});
    }
  return all;
}

void compare(const CallShapes& call, const CallInputs& inputs) {
  double declared_messages = 0;
  const std::vector<ExchangedBytes> declared = spelled_out(exchanges_of(call), declared_messages, call.tensor);
  std::mutex mutex;
  double messages = 0;
  run_ranks(call.tensor, [&](Communicator& group) {
    Recorder recorder(group);
    measure_call(call, inputs, &recorder, kDevice + group.rank());
    const std::lock_guard lock(mutex);
    for (const ExchangedBytes& exchanged : recorder.exchanged)
      if (exchanged.kind == RedistributionKind::send_receive) messages += exchanged.bytes;
    std::erase_if(recorder.exchanged,
                  [](const ExchangedBytes& exchanged) { return exchanged.kind == RedistributionKind::send_receive; });
    EXPECT_EQ(recorder.exchanged, declared) << "rank " << group.rank();
  });
  EXPECT_EQ(messages, declared_messages);
}

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> cases = layer_cases();
  cases.push_back(
      {"stateful_lstm", std::make_shared<const Lstm>("layer", 6, 8, LstmOptions{.stateful = true}), {{5, 6}}});
  cases.push_back({"stateful_lstm_projection",
                   std::make_shared<const Lstm>("layer", 6, 8, LstmOptions{.stateful = true, .projection = 4}),
                   {{5, 6}}});
  const MaxPool2dOptions max{.kernel = 3, .stride = 2, .padding = 1};
  const AvgPool2dOptions average{.kernel = 3, .stride = 2, .padding = 1};
  cases.push_back({"max_pool_halo", std::make_shared<const MaxPool2d>("layer", max), {{4, 16, 6}}});
  cases.push_back({"avg_pool_halo", std::make_shared<const AvgPool2d>("layer", average), {{4, 16, 6}}});
  cases.push_back({"cross_entropy_mixed", std::make_shared<const SoftmaxCrossEntropy>("layer"), {{8}, {8}}});
  return cases;
}

TEST(StatedExchanges, EqualsTheExchangesOfCalls) {
  std::set<std::string> heard;
  for (const LayerCase& c : all_cases())
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const CallInputs inputs = inputs_of(c, precision);
      for (const int degree : {2, 4})
        for (const ShardingOption& option : c.layer->sharding_options(c.inputs, degree)) {
          SCOPED_TRACE(fmt::format("{} {} {} x {}", c.name, name_of(precision), option.name, degree));
          const CallShapes call = call_shapes(*c.layer, inputs, option, degree, kSamples, precision);
          if (!option.communicates_over_tensor_axis) {
            EXPECT_TRUE(exchanges_of(call).forward.empty() && exchanges_of(call).backward.empty());
            continue;
          }
          compare(call, inputs);
          heard.emplace(c.layer->kind());
        }
    }
  for (const char* kind : {"avg_pool2d", "batch_norm", "conv2d", "lstm", "max_pool2d", "pixel_cross_entropy",
                           "sampled_softmax", "softmax_cross_entropy", "stateful_lstm"})
    EXPECT_TRUE(heard.contains(kind)) << kind << " was not heard";
}

TEST(StatedExchanges, GlobalBatchNormCommunicatesInTheDataGroup) {
  const BatchNorm norm("norm", 6);
  const std::vector<Shape> shapes{{6, 5, 5}};
  const ShardingOption option = norm.sharding_options(shapes, 1).front();
  CallShapes shard = call_shapes(norm, {shapes, {4}, {true}}, option, 1, kSamples, Precision::fp32);
  constexpr int kWorkers = 3;
  shard.data = kWorkers;
  const LayerExchanges declared = exchanges_of(shard);
  ASSERT_EQ(declared.forward.size(), 1u);
  ASSERT_EQ(declared.backward.size(), 1u);
  run_ranks(kWorkers, [&](Communicator& group) {
    Recorder recorder(group);
    TestCall call;
    call.option = &option;
    call.batch_norm = BatchNormScope::global;
    call.data = &recorder;
    call.micro_batch_samples = kWorkers * kSamples;
    call.parameters = {at::ones({6}), at::zeros({6})};
    call.buffers = {at::zeros({6}), at::ones({6})};
    const std::vector<at::Tensor> inputs{channels_last(at::ones({kSamples, 6, 5, 5}))};
    const at::Tensor output = norm.forward(call, inputs);
    norm.backward(call, at::ones_like(output));
    const std::vector<ExchangedBytes> expected{{declared.forward[0].kind, declared.forward[0].bytes},
                                               {declared.backward[0].kind, declared.backward[0].bytes}};
    EXPECT_EQ(recorder.exchanged, expected);
  });
  EXPECT_TRUE(declared.forward[0].over_data && declared.backward[0].over_data);
  shard.data = 1;
  EXPECT_TRUE(exchanges_of(shard).forward.empty());
}

}  // namespace
}  // namespace trireme::test_support
