// Backend `virtual` beyond contract_test.cpp: its clocks, on connections with known transfer times.
#include "comm/virtual/virtual_time.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_queue.h"
#include "support/ranks.h"
#include "support/start_all_reduce.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using test_support::start_all_reduce;
using ::testing::HasSubstr;

constexpr double kSecondsPerByte = 0.25, kLatency = 0.5;
constexpr double kNanosecond = 1e-9;  // arrival times are rounded to nanoseconds

/// Each rank has one connection. A collective keeps the connections of its members busy for all of its bytes.
class OneEach final : public TransferTimes {
 public:
  explicit OneEach(int ranks) : ranks_(ranks) {}
  int connections() const override { return ranks_; }
  ModelledTransfer message(int from, int to, int64_t bytes) override {
    return {kLatency, {{from, double(bytes) * kSecondsPerByte}, {to, double(bytes) * kSecondsPerByte}}};
  }
  ModelledTransfer collective(Collective, std::span<const int> ranks, int64_t bytes) override {
    ModelledTransfer transfer{kLatency, {}};
    for (int rank : ranks) transfer.busy.emplace_back(rank, double(bytes) * kSecondsPerByte);
    return transfer;
  }

 private:
  const int ranks_;
};

template <class Body>
void in_virtual_time(int ranks, Body body) {
  LocalWorld world(ranks, std::make_shared<VirtualTime>(ranks, std::make_unique<OneEach>(ranks)));
  test_support::run_ranks(world, [&](Communicator& c) { body(c, *c.virtual_time()); });
}

at::Tensor bytes(int64_t n) { return at::ones({n}, at::kByte); }

TEST(VirtualTime, AMessageArrivesWhenItsConnectionsHaveCarriedIt) {
  in_virtual_time(3, [](Communicator& c, VirtualTime& time) {
    if (c.rank() == 0) {
      c.send(bytes(8), 2, 0);
      EXPECT_EQ(c.now(), 0) << "the sender goes on";
    } else if (c.rank() == 1) {
      time.advance_to(1);
      c.send(bytes(4), 2, 0);  // keeps rank 2's connection busy until time 2
      EXPECT_EQ(c.now(), 1);
    } else {
      EXPECT_EQ(c.receive(1, 0).numel(), 4);
      EXPECT_NEAR(c.now(), 3.5, kNanosecond);
      EXPECT_EQ(c.receive(0, 0).numel(), 8);
      EXPECT_NEAR(c.now(), 3.5, kNanosecond) << "it has been there since 2.5";
      EXPECT_NEAR(c.count().wait_seconds, 1, kNanosecond) << "until rank 1 sent: what follows is the link's";
    }
  });
}

TEST(VirtualTime, ACollectiveBeginsWithItsLastMember) {
  in_virtual_time(3, [](Communicator& c, VirtualTime& time) {
    time.advance_to(c.rank());
    at::Tensor tensor = at::ones({2}, at::kInt);
    c.all_reduce(tensor);
    EXPECT_TRUE(tensor.equal(at::full({2}, 3, at::kInt)));
    EXPECT_NEAR(c.now(), 2 + 8 * kSecondsPerByte + kLatency, kNanosecond);
    EXPECT_EQ(c.count().wait_seconds, 2 - c.rank());
    c.barrier();
    EXPECT_NEAR(c.now(), 4.5, kNanosecond) << "barriers take no time";
  });
}

TEST(VirtualTime, BytesAreThoseOfTheWholeTensor) {
  in_virtual_time(2, [](Communicator& c, VirtualTime&) {
    const auto seconds_of = [&](auto call) {
      const double began = c.now();
      call();
      return c.now() - began - kLatency;
    };
    std::vector<at::Tensor> parts{bytes(3), bytes(5)}, out{bytes(3), bytes(5)};
    at::Tensor own = bytes(c.rank() == 0 ? 3 : 5), whole = bytes(8);
    EXPECT_NEAR(seconds_of([&] { c.all_gather(own, out); }), 2, 1e-8);
    EXPECT_NEAR(seconds_of([&] { c.broadcast(whole, 1); }), 2, 1e-8);
    std::vector<at::Tensor> halves{at::ones({1}, at::kInt), at::ones({2}, at::kInt)};
    at::Tensor half = at::ones({c.rank() + 1}, at::kInt);
    EXPECT_NEAR(seconds_of([&] { c.reduce_scatter(halves, half); }), 3, 1e-8);
    std::vector<at::Tensor> sent{bytes(c.rank() == 0 ? 2 : 6), bytes(4)},
        got{bytes(c.rank() == 0 ? 2 : 4), bytes(c.rank() == 0 ? 6 : 4)};
    EXPECT_NEAR(seconds_of([&] { c.all_to_all(sent, got); }), 2.5, 1e-8) << "rank 1 holds more";
  });
}

TEST(VirtualTime, StartedOperationsRunBesideComputing) {
  in_virtual_time(2, [](Communicator& c, VirtualTime& time) {
    CollectiveQueue queue(c.group(std::vector<int>{0, 1}));
    at::Tensor first = bytes(4), second = bytes(4);
    std::vector<std::future<OperationDone>> handles;
    handles.push_back(start_all_reduce(queue, first.to(at::kInt)));  // 16 bytes: takes until 4.5
    time.advance_to(1 + c.rank());
    handles.push_back(start_all_reduce(queue, second.to(at::kInt)));  // then the second, until 9
    EXPECT_EQ(c.now(), 1 + c.rank());
    time.advance_to(6);
    const OperationDone done = handles[0].get();
    EXPECT_EQ(c.now(), 6) << "it had ended before";
    EXPECT_NEAR(done.end, 4.5, 1e-8);
    EXPECT_EQ(done.begin, 0);
    handles[1].get();
    EXPECT_NEAR(c.now(), 9, 1e-8);
    EXPECT_EQ(c.count().operations, 0) << "counted by itself";
  });
}

TEST(VirtualTime, RanksRunInTheOrderOfTheirClocks) {
  std::vector<int> order;
  in_virtual_time(64, [&](Communicator& c, VirtualTime& time) {
    for (int turn = 0; turn < 3; ++turn) {
      time.advance_to(time.now() + double((c.rank() * 37) % 64 + 1));
      order.push_back(c.rank());  // needs no lock: no other rank runs now
    }
    at::Tensor sum = at::ones({1});
    c.all_reduce(sum);
    EXPECT_EQ(sum.item<float>(), 64);
  });
  std::vector<std::pair<int, int>> expected;  // pairs of time and rank
  for (int rank = 0; rank < 64; ++rank)
    for (int turn = 1; turn <= 3; ++turn) expected.emplace_back(turn * ((rank * 37) % 64 + 1), rank);
  std::sort(expected.begin(), expected.end());
  ASSERT_EQ(order.size(), expected.size());
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], expected[i].second) << i;
}

TEST(VirtualTime, RanksThatWaitForEachOtherAreAnErrorForAll) {
  std::string message;
  try {
    in_virtual_time(2, [](Communicator& c, VirtualTime&) { c.receive(1 - c.rank(), 0); });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("no rank can continue: rank 0 waits for the others, rank 1 waits for the others"));
}

TEST(VirtualTime, RanksThatLeaveAreNotWaitedFor) {
  in_virtual_time(3, [](Communicator& c, VirtualTime& time) {
    if (c.rank() == 0) return;
    time.advance_to(2);
    c.send(bytes(4), 3 - c.rank(), 0);
    c.receive(3 - c.rank(), 0);
    EXPECT_GT(c.now(), 2);
  });
}

}  // namespace
}  // namespace trireme
