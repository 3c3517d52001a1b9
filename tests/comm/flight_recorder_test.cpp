// Reads a rank's recorder through another mapping of the same memory, as another process does.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/flight_recorder.h"
#include "comm/local/local_world.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(FlightRecorder, ShowsWhereARankStands) {
  FlightRecorder rank;
  const FlightRecorder reader(rank.file());
  EXPECT_EQ(standing(reader.read()), "before the first step");
  EXPECT_EQ(reader.heartbeats(), 0u);
  const uint64_t barrier = rank.begin_operation("barrier, call 1 of ranks 0,1");
  EXPECT_EQ(standing(reader.read()), "before the first step, in barrier, call 1 of ranks 0,1");
  rank.end_operation(barrier);
  rank.begin_step(7);
  EXPECT_EQ(standing(reader.read()), "step 7");
  rank.begin_instruction("reduce_gradients bucket 2");
  EXPECT_EQ(standing(reader.read()), "step 7, reduce_gradients bucket 2");
  rank.begin_operation("all_reduce(sum) of Float [4], call 9 of ranks 0,1");
  rank.set_run_folder("runs/a b");
  const RankRecord record = reader.read();
  EXPECT_EQ(record.step, 7);
  EXPECT_EQ(record.run_folder, "runs/a b");
  EXPECT_FALSE(record.interrupted);
  rank.set_interrupted();
  EXPECT_TRUE(reader.read().interrupted);
  EXPECT_EQ(standing(record),
            "step 7, reduce_gradients bucket 2, in all_reduce(sum) of Float [4], call 9 of ranks 0,1");
  EXPECT_THAT(record.last,
              ElementsAre("before the first step: barrier, call 1 of ranks 0,1",
                          "step 7, reduce_gradients bucket 2: all_reduce(sum) of Float [4], call 9 of ranks 0,1"));
}

TEST(FlightRecorder, KeepsTheLastTen) {
  FlightRecorder rank;
  EXPECT_THAT(rank.read().last, IsEmpty());
  for (int k = 1; k <= 23; ++k) {
    rank.begin_step(k);
    rank.end_operation(rank.begin_operation("call " + std::to_string(k)));
  }
  const std::vector<std::string> last = rank.read().last;
  ASSERT_THAT(last, SizeIs(FlightRecorder::kOperations));
  EXPECT_EQ(last.front(), "step 14: call 14");
  EXPECT_EQ(last.back(), "step 23: call 23");
}

TEST(FlightRecorder, ShowsSeveralOperationsAtOnce) {
  FlightRecorder rank;
  const uint64_t first = rank.begin_operation("first"), second = rank.begin_operation("second");
  EXPECT_EQ(rank.read().operation, "first and second");
  rank.end_operation(first);
  EXPECT_EQ(rank.read().operation, "second");
  for (int k = 0; k < FlightRecorder::kOperations; ++k) rank.end_operation(rank.begin_operation("more"));
  rank.end_operation(second);  // is not in the list any more
  EXPECT_EQ(rank.read().operation, "");
}

/// An operation that runs on another thread belongs to the instruction that started it.
TEST(FlightRecorder, KnowsWhatAnOperationIsFor) {
  FlightRecorder rank;
  rank.begin_step(2);
  rank.begin_instruction("reduce_gradients bucket 1");
  const FlightRecorder::Place place = rank.place();
  rank.begin_instruction("backward of fc1");
  std::thread([&] {
    const OperationsOf of_the_bucket(place);
    rank.begin_operation("all_reduce");
  }).join();
  EXPECT_EQ(standing(rank.read()), "step 2, backward of fc1, in all_reduce for reduce_gradients bucket 1");
  EXPECT_THAT(rank.read().last, ElementsAre("step 2, reduce_gradients bucket 1: all_reduce"));
  const uint64_t own = rank.begin_operation("barrier");
  EXPECT_EQ(rank.read().operation, "all_reduce for reduce_gradients bucket 1 and barrier");
  rank.end_operation(own);
}

TEST(FlightRecorder, ReportsLongWork) {
  FlightRecorder rank;
  {
    const LongWork planning(&rank, "planning");
    EXPECT_EQ(standing(rank.read()), "before the first step, planning");
    EXPECT_EQ(where_of(standing(rank.read())), "before the first step, planning");
  }
  EXPECT_EQ(standing(rank.read()), "before the first step");
  const LongWork without_recorder(nullptr, "planning");
}

TEST(FlightRecorder, CutsLongTexts) {
  FlightRecorder rank;
  const std::string text(5000, 'x');
  rank.begin_step(1);
  rank.begin_instruction(text);
  rank.begin_operation(text);
  rank.set_run_folder(text);
  const RankRecord record = rank.read();
  for (const std::string& cut : {record.instruction, record.operation, record.run_folder}) {
    EXPECT_GT(cut.size(), 50u);
    EXPECT_EQ(text.find(cut), 0u);
  }
  rank.begin_instruction("short");
  EXPECT_EQ(rank.read().instruction, "short") << "nothing of the longer text before it shows";
}

TEST(FlightRecorder, MeasuresTheLongestStep) {
  FlightRecorder rank;
  EXPECT_EQ(rank.longest_step(), 0);
  rank.begin_step(1);
  EXPECT_EQ(rank.longest_step(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  rank.begin_step(2);
  rank.begin_step(3);
  EXPECT_GE(rank.longest_step(), 0.06);
  const double before = rank.longest_step();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  rank.begin_step(40);  // another run begins: the time between runs is not a step
  EXPECT_EQ(rank.longest_step(), before);
}

/// Each change writes one number into every text; a reader never sees two different numbers.
TEST(FlightRecorder, ReadsNothingHalfWritten) {
  FlightRecorder rank;
  const FlightRecorder reader(rank.file());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int64_t k = 1; !stop; ++k) {
      const std::string text = std::string(40, 'a' + char(k % 26)) + std::to_string(k);
      rank.begin_step(k);
      rank.end_operation(rank.begin_operation(text));
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  int seen = 0, torn = 0;
  for (std::string before; std::chrono::steady_clock::now() < end;) {
    const RankRecord record = reader.read();
    for (const std::string& line : record.last) {
      const size_t colon = line.find(": ");
      const std::string step = colon == line.npos ? "0" : line.substr(5, colon - 5);
      torn += !line.ends_with(": " + std::string(40, 'a' + char(std::stoll(step) % 26)) + step);
    }
    if (!record.last.empty() && record.last.back() != before) ++seen;
    before = record.last.empty() ? "" : record.last.back();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(seen, 10);
}

TEST(FlightRecorder, RefusesOtherMemory) {
  const int file = ::open("/dev/null", O_RDWR);
  EXPECT_THROW(FlightRecorder{file}, Error);
  ::close(file);
  EXPECT_THROW(FlightRecorder{-1}, Error);
}

TEST(FlightRecorder, RanksThatAreThreadsHaveNone) {
  LocalWorld world(1);
  EXPECT_EQ(flight_recorder(*world.communicator(0)), nullptr);
}

TEST(Heartbeat, BeatsWhileTheProgramIsBusy) {
  const auto recorder = std::make_shared<FlightRecorder>();
  {
    const Heartbeat heartbeat(recorder);
    const uint64_t before = recorder->heartbeats();
    EXPECT_GT(before, 0u);
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    EXPECT_GE(recorder->heartbeats(), before + 3);
  }
  EXPECT_EQ(recorder->heartbeats(), 0u) << "a recorder that has ended is not waited for";
}

TEST(SilenceMeter, CountsOnlyTimeInWhichItWasAwake) {
  SilenceMeter meter;
  double now = 100;
  for (int i = 0; i < 20; ++i) meter.look(0, now += 0.25);
  EXPECT_EQ(meter.seconds(), 0) << "a rank that has not begun is not missed";
  meter.look(5, now += 0.25);
  EXPECT_EQ(meter.seconds(), 0);
  for (int i = 0; i < 8; ++i) meter.look(5, now += 0.25);
  EXPECT_EQ(meter.seconds(), 2);
  meter.look(5, now += 3600);  // the meter itself was stopped
  EXPECT_LT(meter.seconds(), 3);
  meter.look(6, now += 0.25);
  EXPECT_EQ(meter.seconds(), 0);
}

}  // namespace
}  // namespace trireme
