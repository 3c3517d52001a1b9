// The contract of every Communicator, compared with plain sums and copies of all ranks' inputs. One suite for all
// backends; `mpirun -n 4 contract_test --gtest_filter='Mpi/*'` runs it over MPI.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <numeric>
#include <random>
#include <thread>

#include "comm/backends.h"
#include "comm/collective_queue.h"
#include "comm/formulas.h"
#include "comm/group_member.h"
#include "comm/single.h"
#include "comm/virtual/virtual_time.h"
#include "support/start_all_reduce.h"

namespace trireme {
namespace {

using test_support::Backend;
using test_support::run_ranks;
using test_support::start_all_reduce;
using ::testing::HasSubstr;

/// Small integers, different on every rank. Their sum has the same bits in any order, also in bfloat16 (up to 256).
at::Tensor values(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  const int64_t count = c10::multiply_integers(shape);
  return at::arange(count, at::kLong).mul(7).add(rank * 3).remainder(17).sub(5).reshape(shape).to(dtype);
}

at::Tensor sum_of_values(int ranks, at::IntArrayRef shape, at::ScalarType dtype) {
  at::Tensor sum = at::zeros(shape, at::kLong);
  for (int r = 0; r < ranks; ++r) sum += values(r, shape, at::kLong);
  return sum.to(dtype);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return test_support::name_of(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

class Collectives : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  const Backend backend = std::get<0>(GetParam());
  const int n = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Local, Collectives,
                         ::testing::Combine(::testing::Values(Backend::local), ::testing::Values(1, 2, 3, 4, 7, 8)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Gloo, Collectives,
                         ::testing::Combine(::testing::Values(Backend::gloo), ::testing::Values(1, 2, 3, 5)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(GlooGpu, Collectives,
                         ::testing::Combine(::testing::Values(Backend::gloo_gpu), ::testing::Values(1, 2, 3)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Direct, Collectives,
                         ::testing::Combine(::testing::Values(Backend::direct), ::testing::Values(1, 2, 3, 4)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Mpi, Collectives,
                         ::testing::Combine(::testing::Values(Backend::mpi), ::testing::Values(1, 2, 3, 4)), case_name);

INSTANTIATE_TEST_SUITE_P(Virtual, Collectives,
                         ::testing::Combine(::testing::Values(Backend::virtual_time),
                                            ::testing::Values(1, 2, 3, 4, 7, 8)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Nccl, Collectives,
                         ::testing::Combine(::testing::Values(Backend::nccl), ::testing::Values(1, 2, 4)), case_name);

/// For tests that choose the number of ranks themselves.
class Contract : public test_support::OnBackend {};
TRIREME_ON_EVERY_BACKEND(Contract);

const int64_t kLengths[] = {0, 1, 3, 5, 64, 1001, 40'013};
const at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kInt};

TEST_P(Collectives, AllReduceSumsAndTakesTheMaximum) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (const at::ScalarType dtype : kTypes) {
      for (const int64_t length : kLengths) {
        const auto before = c.count();
        at::Tensor sum = values(c.rank(), {length}, dtype);
        c.all_reduce(sum);
        EXPECT_TRUE(sum.equal(sum_of_values(n, {length}, dtype))) << dtype << " " << length;
        EXPECT_EQ(c.count().bytes_sent - before.bytes_sent, all_reduce_bytes(length, sum.element_size(), n, c.rank()));
        at::Tensor largest = values(c.rank(), {length}, dtype), expected = values(0, {length}, dtype);
        c.all_reduce(largest, ReduceOp::max);
        for (int r = 1; r < n; ++r) expected = at::maximum(expected, values(r, {length}, dtype));
        EXPECT_TRUE(largest.equal(expected)) << dtype << " " << length;
      }
    }
  });
}

TEST_P(Collectives, AllReduceIntoLeavesItsInput) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (const int64_t length : kLengths) {
      const at::Tensor input = values(c.rank(), {length}, at::kFloat);
      at::Tensor output = at::full({length}, -1.0F);
      c.all_reduce_into(input, output);
      EXPECT_TRUE(output.equal(sum_of_values(n, {length}, at::kFloat)));
      c.barrier();
      EXPECT_TRUE(input.equal(values(c.rank(), {length}, at::kFloat)));
    }
  });
}

TEST_P(Collectives, AllReduceTakesAnyMemoryFormat) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (const int64_t width : {3, 50}) {
      const std::vector<int64_t> shape{2, 5, width, width};
      const at::Tensor expected = sum_of_values(n, shape, at::kFloat);
      const at::Tensor plain = values(c.rank(), shape, at::kFloat);
      at::Tensor last = plain.contiguous(at::MemoryFormat::ChannelsLast);
      c.all_reduce(last);
      EXPECT_TRUE(last.equal(expected));
      EXPECT_TRUE(last.is_contiguous(at::MemoryFormat::ChannelsLast));
      at::Tensor mixed = c.rank() % 2 ? plain.contiguous(at::MemoryFormat::ChannelsLast) : plain.clone();
      c.all_reduce(mixed);
      EXPECT_TRUE(mixed.equal(expected));
      at::Tensor wide = at::zeros({2, 5, width, 2 * width});
      at::Tensor view = wide.narrow(3, 1, width);
      view.copy_(plain);
      c.all_reduce(view);
      EXPECT_TRUE(view.equal(expected));
      EXPECT_EQ(wide.select(3, 0).abs().sum().item<float>(), 0);
    }
  });
}

TEST_P(Collectives, ReductionsGiveAllRanksTheBitsOfRankOrder) {
  const int64_t length = 30'011;
  at::manual_seed(7);  // all processes draw the same values
  std::vector<at::Tensor> inputs;
  for (int r = 0; r < n; ++r) inputs.push_back(at::randn({length}).mul(std::pow(10.0, r)));
  at::Tensor expected = inputs[0].clone();
  for (int r = 1; r < n; ++r) expected += inputs[r];
  run_ranks(backend, n, [&](Communicator& c) {
    at::Tensor sum = inputs[c.rank()].clone();
    c.all_reduce(sum);
    EXPECT_TRUE(sum.equal(expected));
  });
}

TEST_P(Collectives, BFloat16IsRoundedOnce) {
  // In bfloat16, 256 + 1 is 256: if every addition were rounded, the sum would stay 256.
  run_ranks(backend, n, [&](Communicator& c) {
    at::Tensor tensor = at::full({5000}, c.rank() == 0 ? 256.0 : 1.0, at::kBFloat16);
    c.all_reduce(tensor);
    EXPECT_TRUE(tensor.equal(at::full({5000}, 256.0 + (n - 1), at::kFloat).to(at::kBFloat16)));
  });
}

TEST_P(Collectives, AllGatherOfUnevenBlocks) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (const int64_t scale : {0, 1, 5000}) {
      const auto shape_of = [&](int r) { return std::vector<int64_t>{(r * 5) % 4 * scale, 3}; };
      const auto before = c.count();
      std::vector<at::Tensor> outputs;
      std::vector<int64_t> blocks;
      for (int r = 0; r < n; ++r) outputs.push_back(at::full(shape_of(r), -1, at::kInt));
      for (const at::Tensor& output : outputs) blocks.push_back(static_cast<int64_t>(output.nbytes()));
      c.all_gather(values(c.rank(), shape_of(c.rank()), at::kInt), outputs);
      for (int r = 0; r < n; ++r) EXPECT_TRUE(outputs[r].equal(values(r, shape_of(r), at::kInt)));
      const int64_t all = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
      EXPECT_EQ(c.count().bytes_sent - before.bytes_sent, all - blocks[(c.rank() + 1) % n]);
    }
  });
}

TEST_P(Collectives, ReduceScatterOfUnevenBlocks) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (const int64_t scale : {0, 1, 5000}) {
      const auto shape_of = [&](int r) { return std::vector<int64_t>{3, (r + 1) % 3 * scale}; };
      const auto before = c.count();
      std::vector<at::Tensor> inputs;
      int64_t others = 0;
      for (int r = 0; r < n; ++r) {
        inputs.push_back(values(c.rank() + r, shape_of(r), at::kDouble));
        if (r != c.rank()) others += static_cast<int64_t>(inputs[r].nbytes());
      }
      at::Tensor output = at::empty(shape_of(c.rank()), at::kDouble), expected = at::zeros_like(output);
      c.reduce_scatter(inputs, output);
      for (int q = 0; q < n; ++q) expected += values(q + c.rank(), shape_of(c.rank()), at::kDouble);
      EXPECT_TRUE(output.equal(expected));
      EXPECT_EQ(c.count().bytes_sent - before.bytes_sent, others);
    }
  });
}

TEST_P(Collectives, AllToAllWithNothingForSome) {
  run_ranks(backend, n, [&](Communicator& c) {
    const auto has = [](int from, int to) { return (from + to) % 3 != 0; };
    for (const int64_t length : {2, 20'000}) {
      std::vector<at::Tensor> inputs(n), outputs(n);
      for (int q = 0; q < n; ++q) {
        if (has(c.rank(), q)) inputs[q] = values(c.rank() * n + q, {length + q}, at::kLong);
        if (has(q, c.rank())) outputs[q] = at::empty({length + c.rank()}, at::kLong);
      }
      c.all_to_all(inputs, outputs);
      for (int q = 0; q < n; ++q) {
        ASSERT_EQ(outputs[q].defined(), has(q, c.rank()));
        if (has(q, c.rank())) {
          EXPECT_TRUE(outputs[q].equal(values(q * n + c.rank(), {length + c.rank()}, at::kLong)));
        }
      }
    }
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (int root = 0; root < n; ++root) {
      for (const int64_t length : kLengths) {
        at::Tensor tensor = values(c.rank(), {length}, at::kFloat);
        c.broadcast(tensor, root);
        EXPECT_TRUE(tensor.equal(values(root, {length}, at::kFloat)));
      }
    }
  });
}

TEST(Formulas, SumUpToTheRingsVolume) {
  for (const int n : {2, 3, 4, 7, 8}) {
    for (const int64_t length : kLengths) {
      int64_t sent = 0;
      for (int r = 0; r < n; ++r) sent += all_reduce_bytes(length, 4, n, r);
      EXPECT_EQ(sent, 2 * (n - 1) * length * 4);
      EXPECT_EQ(all_reduce_bytes(n * length, 4, n, n - 1), 2 * (n - 1) * length * 4);
    }
  }
  EXPECT_EQ(all_reduce_bytes(10, 4, 1, 0), 0);
  int64_t broadcast = 0;
  for (int r = 0; r < 4; ++r) broadcast += broadcast_bytes(100, 4, r, 2);
  EXPECT_EQ(broadcast, 300);
}

TEST_P(Collectives, MessagesOfOneTagKeepTheirOrderAndTagsDoNotMix) {
  run_ranks(backend, n, [&](Communicator& c) {
    constexpr int kMessages = 20;
    const int next = (c.rank() + 1) % n, previous = (c.rank() + n - 1) % n;
    for (int i = 0; i < kMessages; ++i)
      for (const int64_t tag : {5, 9}) c.send(at::full({i}, c.rank() * 1000 + i * 10 + tag, at::kLong), next, tag);
    for (const int64_t tag : {9, 5})
      for (int i = 0; i < kMessages; ++i)
        EXPECT_TRUE(c.receive(previous, tag).equal(at::full({i}, previous * 1000 + i * 10 + tag, at::kLong)));
    EXPECT_EQ(c.count().bytes_sent, n == 1 ? 0 : 2 * 8 * kMessages * (kMessages - 1) / 2);
  });
}

TEST_P(Contract, MessagesAreTheReceiversOwnMemoryAndKeepTheFormat) {
  run_ranks(backend, 2, [&](Communicator& c) {
    const at::Tensor sent =
        at::arange(120, at::kFloat).reshape({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
    if (c.rank() == 0) {
      c.send(sent, 1, 0);
      c.send(sent.narrow(1, 1, 2), 1, 0);
      c.barrier();
      EXPECT_EQ(sent.sum().item<float>(), 119 * 60);
    } else {
      at::Tensor got = c.receive(0, 0);
      EXPECT_TRUE(got.equal(sent) && got.is_contiguous(at::MemoryFormat::ChannelsLast));
      got.zero_();
      EXPECT_TRUE(c.receive(0, 0).equal(sent.narrow(1, 1, 2)));
      c.barrier();
    }
  });
}

TEST_P(Contract, GroupsWorkSideBySideAndNested) {
  const int all = backend == Backend::mpi ? 4 : 8;
  run_ranks(backend, all, [&](Communicator& c) {
    std::vector<int> half;
    for (int r = c.rank() % 2; r < all; r += 2) half.push_back(r);
    const auto group = c.group(half);
    ASSERT_EQ(group->size(), all / 2);
    ASSERT_EQ(group->rank(), c.rank() / 2);
    at::Tensor sum = at::full({10'000}, c.rank(), at::kLong);
    group->all_reduce(sum);
    EXPECT_TRUE(sum.equal(at::full({10'000}, std::accumulate(half.begin(), half.end(), 0), at::kLong)));
    const std::vector<int> pair = group->rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    const auto nested = group->group(pair);
    at::Tensor pair_sum = at::full({3}, c.rank(), at::kLong);
    nested->all_reduce(pair_sum);
    const int64_t first = c.rank() / 4 * 4 + c.rank() % 2;
    EXPECT_TRUE(pair_sum.equal(at::full({3}, first + first + 2, at::kLong)));
    const std::vector<int> alone{nested->rank()};
    const auto single = nested->group(alone);
    single->all_reduce(pair_sum);
    EXPECT_EQ(single->size(), 1);
    EXPECT_EQ(single->count().bytes_sent, 0);
    EXPECT_EQ(c.count().bytes_sent,
              all_reduce_bytes(10'000, 8, all / 2, group->rank()) + all_reduce_bytes(3, 8, 2, nested->rank()));
    EXPECT_EQ(c.count().operations, 3);
  });
}

TEST_P(Contract, GroupsOfTheSameRanksAreApart) {
  run_ranks(backend, 2, [&](Communicator& c) {
    const std::vector<int> both{0, 1};
    const auto first = c.group(both), second = c.group(both);
    const int other = 1 - c.rank();
    first->send(at::full({1}, 1.0F), other, 0);
    second->send(at::full({1}, 2.0F), other, 0);
    EXPECT_EQ(second->receive(other, 0).item<float>(), 2);
    EXPECT_EQ(first->receive(other, 0).item<float>(), 1);
  });
}

TEST_P(Contract, SendsDoNotWaitForTheReceiver) {
  constexpr int64_t kElements = 3'000'000;  // more than the buffers of sockets
  run_ranks(backend, 2, [&](Communicator& c) {
    const int other = 1 - c.rank();
    for (int i = 0; i < 3; ++i) c.send(at::full({kElements}, c.rank() * 10 + i, at::kFloat), other, i);
    for (int i = 2; i >= 0; --i)
      EXPECT_TRUE(c.receive(other, i).equal(at::full({kElements}, other * 10 + i, at::kFloat)));
  });
}

TEST_P(Contract, ASenderMayLeaveAfterManyMessages) {
  for (int repetition = 0; repetition < 10; ++repetition) {
    for (const int64_t elements : {100, 50'000, 300'000}) {
      run_ranks(backend, 2, [&](Communicator& c) {
        for (int i = 0; i < 8; ++i) {
          if (c.rank() == 1) c.send(at::full({elements}, i, at::kFloat), 0, 1);
          else EXPECT_TRUE(c.receive(1, 1).equal(at::full({elements}, i, at::kFloat)));
        }
      });
    }
  }
}

TEST_P(Contract, MessagesOfAllLengthsArrive) {
  run_ranks(backend, 2, [&](Communicator& c) {
    const std::vector<int> both{0, 1};
    const auto first = c.group(both), second = c.group(both);
    const int other = 1 - c.rank();
    constexpr int kMessages = 150;
    const auto message = [](int from, int i) {
      std::mt19937_64 random(uint64_t(from * kMessages + i));
      const int64_t longest[] = {100, 10'000, 50'000, 300'000, 1'100'000};  // up to 4.4 MB
      const int64_t length = longest[i % 30 == 29 ? 4 : random() % 4];
      return at::full({1 + int64_t(random() % uint64_t(length))}, from * kMessages + i, at::kFloat);
    };
    const auto group_of = [&](int i) -> Communicator& { return i % 3 == 0 ? *second : *first; };
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < kMessages; ++i) group_of(i).send(message(c.rank(), i), other, i % 2);
      for (const auto& [group, tag] : {std::pair(1, 1), std::pair(0, 0), std::pair(1, 0), std::pair(0, 1)}) {
        for (int i = 0; i < kMessages; ++i) {
          if ((i % 3 == 0) != (group == 1) || i % 2 != tag) continue;
          const at::Tensor got = group_of(i).receive(other, tag);
          ASSERT_TRUE(got.equal(message(other, i))) << "message " << i << ", round " << round;
        }
      }
    }
  });
}

TEST_P(Contract, ASenderMayLeaveBeforeTheReceiverAsks) {
  run_ranks(backend, 2, [&](Communicator& c) {
    if (c.rank() == 0) {
      c.send(at::arange(2'000'000, at::kFloat), 1, 1);
      return c.send(at::arange(10, at::kLong), 1, 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_TRUE(c.receive(0, 1).equal(at::arange(2'000'000, at::kFloat)));
    EXPECT_TRUE(c.receive(0, 1).equal(at::arange(10, at::kLong)));
  });
}

TEST_P(Collectives, StepsAreThoseOfTheAlgorithms) {
  run_ranks(backend, n, [&](Communicator& c) {
    const auto steps_of = [&](const std::function<void()>& operation) {
      const CommunicationCount before = c.count();
      operation();
      EXPECT_EQ(c.count().operations - before.operations, 1);
      return c.count().steps - before.steps;
    };
    at::Tensor tensor = at::ones({40});
    const std::vector<at::Tensor> inputs(n, tensor);
    std::vector<at::Tensor> outputs;
    for (int r = 0; r < n; ++r) outputs.push_back(at::empty({40}));
    EXPECT_EQ(steps_of([&] { c.all_reduce(tensor); }), 2 * (n - 1));
    EXPECT_EQ(steps_of([&] { c.all_gather(tensor, outputs); }), n - 1);
    EXPECT_EQ(steps_of([&] { c.reduce_scatter(inputs, outputs[0]); }), n - 1);
    EXPECT_EQ(steps_of([&] { c.all_to_all(inputs, outputs); }), n - 1);
    EXPECT_EQ(steps_of([&] { c.broadcast(tensor, 0); }), n - 1);
    EXPECT_EQ(steps_of([&] { c.barrier(); }), n == 1 ? 0 : 1);
    EXPECT_EQ(steps_of([&] { c.send(tensor, (c.rank() + 1) % n, 0); }), n == 1 ? 0 : 1);
    EXPECT_EQ(steps_of([&] { c.receive((c.rank() + n - 1) % n, 0); }), 0);
  });
}

TEST_P(Collectives, BroadcastBytesLeaveAllButTheEndOfTheChain) {
  run_ranks(backend, n, [&](Communicator& c) {
    for (int root = 0; root < n; ++root) {
      const int64_t before = c.count().bytes_sent;
      at::Tensor tensor = at::ones({1001});
      c.broadcast(tensor, root);
      EXPECT_EQ(c.count().bytes_sent - before, (c.rank() + 1) % n == root ? 0 : 4004);
    }
  });
}

TEST_P(Collectives, StartedCollectivesRunBesideOthers) {
  run_ranks(backend, n, [&](Communicator& c) {
    std::vector<int> everyone(n);
    std::iota(everyone.begin(), everyone.end(), 0);
    CollectiveQueue queue(c.group(everyone));
    std::vector<at::Tensor> tensors;
    std::vector<std::future<OperationDone>> handles;
    for (const int64_t length : kLengths) {
      tensors.push_back(values(c.rank(), {length}, at::kFloat));
      handles.push_back(start_all_reduce(queue, tensors.back()));
    }
    handles.push_back(queue.start([](Communicator& group) { group.barrier(); }));
    at::Tensor beside = values(c.rank(), {1001}, at::kLong);
    c.all_reduce(beside);
    EXPECT_TRUE(beside.equal(sum_of_values(n, {1001}, at::kLong)));
    int64_t operations = 0;
    for (std::future<OperationDone>& handle : handles) operations += handle.get().count.operations;
    for (const at::Tensor& tensor : tensors) EXPECT_TRUE(tensor.equal(sum_of_values(n, tensor.sizes(), at::kFloat)));
    EXPECT_EQ(operations, int64_t(std::size(kLengths)) + 1);
    if (dynamic_cast<GroupMember*>(&c) == nullptr) return;  // ThroughGpu hides what the queue asks its group for
    EXPECT_EQ(c.count().operations, 1) << "what goes on beside is counted by itself";
  });
}

TEST_P(Contract, AStartedCollectiveDoesNotHoldItsCaller) {
  run_ranks(backend, 2, [&](Communicator& c) {
    CollectiveQueue queue(c.group(std::vector<int>{0, 1}));
    at::Tensor tensor = at::ones({1000});
    std::future<OperationDone> handle;
    const double started = c.now();
    if (c.rank() == 0) {
      handle = start_all_reduce(queue, tensor);
      if (VirtualTime* const time = c.virtual_time()) {
        time->advance_to(started + 0.05);
      } else {
        EXPECT_EQ(handle.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
            << "rank 1 has not begun";
      }
      c.send(at::ones({1}), 1, 0);
    } else {
      c.receive(0, 0);
      handle = start_all_reduce(queue, tensor);
    }
    const OperationDone done = handle.get();
    EXPECT_GE(done.begin, started);
    if (c.rank() == 0) {
      EXPECT_GE(done.end - started, 0.05) << "rank 1 had not begun";
    }
    EXPECT_LE(done.count.wait_seconds, done.end - done.begin);
    EXPECT_EQ(tensor.sum().item<float>(), 2000);
  });
}

TEST(SingleCommunicator, DoesNothing) {
  const auto alone = single_communicator();
  at::Tensor tensor = at::arange(5, at::kFloat);
  alone->all_reduce(tensor);
  alone->broadcast(tensor, 0);
  alone->barrier();
  std::vector<at::Tensor> outputs{at::empty({5})};
  alone->all_gather(tensor, outputs);
  EXPECT_TRUE(outputs[0].equal(at::arange(5, at::kFloat)));
  EXPECT_EQ(alone->count().bytes_sent, 0);
  EXPECT_EQ(alone->size(), 1);
}

}  // namespace
}  // namespace trireme
