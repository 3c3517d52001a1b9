#include "comm/process/posted_receives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace trireme {
namespace {

class NoTransfer final : public Transfer {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
  void cancel() override {}
};

/// A receiver whose posted receives are noted by number.
struct Receiver {
  PostedReceives receives;
  std::map<int64_t, at::Tensor> posted;

  std::optional<PostedReceives::Received> use(int64_t bytes, bool has_room = true) {
    auto received = receives.use(bytes);
    receives.post(has_room, [&](const at::Tensor& room, int64_t number) {
      EXPECT_FALSE(posted.contains(number));
      posted[number] = room;
      return std::make_unique<NoTransfer>();
    });
    return received;
  }
};

/// As the sender calls it: returns the number of the receive that the message uses; null: none.
std::optional<int64_t> number_of(PostedSizes& sizes, int64_t bytes) {
  const auto used = sizes.use(bytes);
  while (sizes.post()) {
  }
  if (!used) return std::nullopt;
  EXPECT_GE(used->bytes, bytes);
  return used->number;
}

TEST(PostedReceives, BothRanksFindTheSameReceives) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    PostedSizes sender;
    Receiver receiver;
    int used = 0;
    for (int message = 0; message < 200; ++message) {
      const int64_t bytes = 20'000 + int64_t(random() % 4) * 50'000 + (random() % 50 == 0 ? kPostedBytes : 0);
      const auto number = number_of(sender, bytes);
      const auto received = receiver.use(bytes);
      ASSERT_EQ(received.has_value(), number.has_value());
      if (!number) continue;
      ++used;
      EXPECT_EQ(received->bytes.numel(), bytes);
      EXPECT_EQ(received->bytes.data_ptr(), receiver.posted.at(*number).data_ptr());
    }
    EXPECT_GT(used, 100);
  }
}

TEST(PostedReceives, AllButTheFirstOfEqualMessagesUseOne) {
  PostedSizes sender;
  EXPECT_FALSE(number_of(sender, 1'000'000));
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(number_of(sender, 1'000'000), i);
}

TEST(PostedReceives, AreNotBegunWithoutRoom) {
  PostedSizes sender;
  Receiver receiver;
  for (int i = 0; i < 30; ++i) {
    const bool has_room = i % 10 < 5;
    const auto number = number_of(sender, 1'000'000);
    const auto received = receiver.use(1'000'000, has_room);
    ASSERT_EQ(received.has_value(), number && receiver.posted.contains(*number));
  }
  EXPECT_THAT(receiver.posted.size(), ::testing::AllOf(::testing::Ge(10u), ::testing::Le(20u)));
}

TEST(PostedReceives, FollowTheSizesOfMessages) {
  PostedSizes sender;
  number_of(sender, 50'000);
  EXPECT_FALSE(number_of(sender, 80'000)) << "a longer message than expected";
  EXPECT_TRUE(number_of(sender, 80'000));
  for (int i = 0; i < 300; ++i) EXPECT_TRUE(number_of(sender, 30'000));
  const auto used = sender.use(30'000);
  ASSERT_TRUE(used);
  EXPECT_EQ(used->bytes, 30'000) << "no room is kept for sizes that are long past";
}

TEST(PostedReceives, LongMessagesHaveNone) {
  PostedSizes sender;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(number_of(sender, kPostedBytes + 1));
  EXPECT_FALSE(sender.post());
}

}  // namespace
}  // namespace trireme
