#include "report/progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "report/width.h"
#include "sample.h"

namespace trireme {
namespace {

/// Progress with a clock and a screen that the test controls.
struct Screen {
  double time = 0;
  std::string text;
  int writes = 0;
  ProgressOptions options(bool terminal, int width = 80) {
    return {.terminal = terminal,
            .width = width,
            .redraw_seconds = 0.1,
            .log_seconds = 5,
            .write = [this](std::string_view t) { text += t, ++writes; },
            .now = [this] { return time; }};
  }
};

StepReport report_at(int64_t step) {
  StepReport report;
  report.point = {step, step * 128, step * 0.01, 0.5};
  report.total_steps = 1000;
  report.samples_per_second = 12345;
  report.seconds_left = 42;
  return report;
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  Screen screen;
  Progress progress(screen.options(true));
  progress.begin("data", 1000);
  screen.writes = 0;
  for (int step = 1; step <= 1000; ++step) {
    screen.time += 0.001;
    progress.update("data", report_at(step));
  }
  EXPECT_GE(screen.writes, 9);
  EXPECT_LE(screen.writes, 12);
}

TEST(Progress, ShowsLossSpeedAndTimeLeftWithinTheWidth) {
  for (int width : {30, 40, 80, 200}) {
    Screen screen;
    Progress progress(screen.options(true, width));
    progress.begin("data", 1000);
    screen.text.clear();
    progress.update("data", report_at(500));
    std::string line = screen.text.substr(screen.text.find("\x1b[J") + 3);
    line.pop_back();
    EXPECT_LT(columns_of(line), width) << line;
    if (width < 80) continue;
    for (const char* part : {"data", "500/1000", "loss 0.5000", "12.3 k samples/s", "42.0 s left", "━"})
      EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
}

TEST(Progress, KeepsFinishedStrategiesAboveRunningOnes) {
  Screen screen;
  Progress progress(screen.options(true));
  progress.begin("single", 10);
  progress.begin("data", 10);
  screen.text.clear();
  progress.end("single", test_support::sample_result().rows[4]);
  EXPECT_TRUE(screen.text.starts_with("\x1b[2A")) << "replaces both lines";
  size_t finished = screen.text.find("timed out: no step in 60 s"), running = screen.text.find("data");
  ASSERT_NE(finished, std::string::npos);
  EXPECT_LT(finished, running);
}

TEST(Progress, LongLinesAreNotCut) {
  Screen screen;
  Progress progress(screen.options(true, 30));
  progress.say("predictions: whole steps take 1.12 times as long as their layers");
  EXPECT_TRUE(screen.text.ends_with("\x1b[Jpredictions: whole steps\n  take 1.12 times as long as\n  their layers\n"))
      << screen.text;
  RunResult result = test_support::sample_result().rows[1];
  result.status = RunStatus::failed;
  result.reason = "diverged after 12 steps; lower the learning rate";
  progress.end("data", result);
  EXPECT_TRUE(screen.text.ends_with("\n  lower the learning rate\n")) << screen.text;
}

TEST(Progress, EndsWithTheMetricsOfTheTask) {
  Screen screen;
  Progress progress(screen.options(false));
  RunResult result = test_support::sample_result().rows[1];
  progress.end("data", result);
  EXPECT_NE(screen.text.find("test accuracy 98.88 %\n"), std::string::npos) << screen.text;
  result.test->metrics = {{"perplexity", 24.25}, {"accuracy", 0.3}};
  result.final_metrics = {{"bleu", 5.5}};
  progress.end("data", result);
  EXPECT_NE(screen.text.find("test perplexity 24.25  test BLEU 5.50\n"), std::string::npos) << screen.text;
}

TEST(Progress, LongPhasesShowTheirSecondsOnATerminal) {
  Screen screen;
  Progress progress(screen.options(true, 40));
  progress.begin_phase("reading data");
  screen.time = 1.9;
  progress.tick();
  EXPECT_EQ(screen.text, "") << "short phases stay silent";
  screen.time = 3.5;
  progress.tick();
  EXPECT_TRUE(screen.text.ends_with("\x1b[Jreading data ...  3 s\n")) << screen.text;
  screen.time = 4;
  progress.say("a line above");
  EXPECT_TRUE(screen.text.ends_with("\x1b[1A\r\x1b[Ja line above\nreading data ...  4 s\n")) << screen.text;
  progress.end_phase();
  EXPECT_TRUE(screen.text.ends_with("\x1b[1A\r\x1b[J")) << "the line is gone";
  screen.text.clear();
  progress.tick();
  EXPECT_EQ(screen.text, "");
}

TEST(Progress, LongPhasesAreOneLineOfALog) {
  Screen screen;
  Progress progress(screen.options(false));
  progress.begin_phase("measuring layers");
  for (screen.time = 0; screen.time < 60; ++screen.time) progress.tick();
  progress.end_phase();
  EXPECT_EQ(screen.text, "measuring layers ...\n");
}

TEST(Progress, APhaseDrawsItselfUntilItEnds) {
  std::atomic<int> lines = 0;
  std::atomic<double> time = 0;
  Progress progress(
      {.terminal = false, .write = [&](std::string_view) { ++lines; }, .now = [&] { return time.load(); }});
  {
    const ShownPhase phase(progress, "planning");
    time = 10;
    while (lines == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  { const ShownPhase quick(progress, "reading data"); }
  EXPECT_EQ(lines, 1);
}

TEST(Progress, LogsPlainLinesNowAndThen) {
  Screen screen;
  Progress progress(screen.options(false));
  progress.begin("data", 1000);
  for (int step = 1; step <= 1000; ++step) {
    screen.time += 0.011;
    progress.update("data", report_at(step));
  }
  progress.end("data", test_support::sample_result().rows[1]);
  EXPECT_EQ(screen.text.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), '\n'), 1 + 3 + 1) << screen.text;
  EXPECT_NE(screen.text.find("data: step 1/1000  loss 0.5000"), std::string::npos) << "the first loss at once";
  EXPECT_NE(screen.text.find("done  11.3 ms/step"), std::string::npos) << screen.text;
}

}  // namespace
}  // namespace trireme
