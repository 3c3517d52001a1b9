// The contract for tensors larger than 2 GiB: their number of bytes does not fit into an int. Slow; each test needs up
// to 10 GB.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "comm/backends.h"
#include "comm/formulas.h"

namespace trireme {
namespace {

using test_support::Backend;
using test_support::run_ranks;

constexpr int64_t kLength = (int64_t(1) << 30) + (int64_t(1) << 27) + 3;  // a little more than 2.25 GiB of bfloat16
constexpr int64_t kNeededKiB = int64_t(14) << 20;

int64_t available_kib() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    int64_t amount = 0;
    file >> amount;
    std::getline(file, unit);
    if (key == "MemAvailable:") return amount;
  }
  return 0;
}

/// A small integer that depends on the rank. Tests see it if data is shifted by 2^31 bytes or by a piece of a transfer.
int value_at(int64_t index, int rank) { return int((index + (index >> 20)) & 63) - 32 + rank; }

at::Tensor values(int rank, int64_t length = kLength) {
  at::Tensor tensor = at::empty({length}, at::kBFloat16);
  auto* data = tensor.data_ptr<at::BFloat16>();
  for (int64_t i = 0; i < length; ++i) data[i] = float(value_at(i, rank));
  return tensor;
}

/// Returns the first index at which `tensor` differs from the sum over `ranks`; -1 if it is equal.
int64_t difference(const at::Tensor& tensor, const std::vector<int>& ranks) {
  const auto* data = tensor.data_ptr<at::BFloat16>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    int sum = 0;
    for (const int rank : ranks) sum += value_at(i, rank);
    if (float(data[i]) != float(sum)) return i;
  }
  return -1;
}

class LargeTensors : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (available_kib() < kNeededKiB) GTEST_SKIP() << "less than " << (kNeededKiB >> 20) << " GiB of memory are free";
  }
  const Backend backend = GetParam();
};
const auto large_name = [](const auto& info) { return test_support::name_of(info.param); };
INSTANTIATE_TEST_SUITE_P(Local, LargeTensors, ::testing::Values(Backend::local), large_name);
INSTANTIATE_TEST_SUITE_P(Virtual, LargeTensors, ::testing::Values(Backend::virtual_time), large_name);
INSTANTIATE_TEST_SUITE_P(Gloo, LargeTensors, ::testing::Values(Backend::gloo), large_name);
INSTANTIATE_TEST_SUITE_P(Mpi, LargeTensors, ::testing::Values(Backend::mpi), large_name);

TEST_P(LargeTensors, AreReduced) {
  run_ranks(backend, 2, [](Communicator& c) {
    at::Tensor tensor = values(c.rank());
    c.all_reduce(tensor);
    EXPECT_EQ(difference(tensor, {0, 1}), -1);
    EXPECT_EQ(c.count().bytes_sent, all_reduce_bytes(kLength, 2, 2, c.rank()));
  });
}

TEST_P(LargeTensors, AreBroadcast) {
  run_ranks(backend, 2, [](Communicator& c) {
    at::Tensor tensor = c.rank() == 1 ? values(1) : at::zeros({kLength}, at::kBFloat16);
    c.broadcast(tensor, 1);
    EXPECT_EQ(difference(tensor, {1}), -1);
  });
}

TEST_P(LargeTensors, AreSent) {
  run_ranks(backend, 2, [](Communicator& c) {
    if (c.rank() == 0) {
      c.send(values(0), 1, 3);
      EXPECT_EQ(c.count().bytes_sent, 2 * kLength);
    } else {
      EXPECT_EQ(difference(c.receive(0, 3), {0}), -1);
    }
  });
}

TEST_P(LargeTensors, AreGatheredBesideSmallOnes) {
  run_ranks(backend, 2, [](Communicator& c) {
    std::vector<at::Tensor> outputs{at::empty({kLength}, at::kBFloat16), at::empty({5}, at::kBFloat16)};
    c.all_gather(values(c.rank(), c.rank() == 0 ? kLength : 5), outputs);
    EXPECT_EQ(difference(outputs[0], {0}), -1);
    EXPECT_EQ(difference(outputs[1], {1}), -1);
  });
}

TEST_P(LargeTensors, AreReducedAndScattered) {
  run_ranks(backend, 2, [](Communicator& c) {
    const std::vector<at::Tensor> inputs{values(c.rank()), values(c.rank(), 7)};
    at::Tensor output = at::empty({c.rank() == 0 ? kLength : 7}, at::kBFloat16);
    c.reduce_scatter(inputs, output);
    EXPECT_EQ(difference(output, {0, 1}), -1);
  });
}

TEST_P(LargeTensors, AreExchanged) {
  run_ranks(backend, 2, [](Communicator& c) {
    std::vector<at::Tensor> inputs(2), outputs(2);
    if (c.rank() == 0) inputs[1] = values(0);
    else outputs[0] = at::empty({kLength}, at::kBFloat16);
    c.all_to_all(inputs, outputs);
    if (c.rank() == 1) {
      EXPECT_EQ(difference(outputs[0], {0}), -1);
    }
  });
}

}  // namespace
}  // namespace trireme
