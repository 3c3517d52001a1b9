// Common base of tests with whole runs on a tiny task.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include "base/memory.h"
#include "data/text/text_stream.h"
#include "experiment/run_spec.h"
#include "memory_data.h"

namespace trireme::test_support {

class TinyTraining : public ::testing::Test {
 protected:
  TinyTraining() {
    data.train = train_set;
    data.test = test_set;
    experiment.file = "tiny.toml";
    experiment.batch = 20;
    experiment.model_name = "mlp";
    experiment.model_options = {{"hidden", 32}};
  }
  void TearDown() override {
    if (place_of(0).is_cuda()) return;  // the workspaces of cuBLAS stay with the handles of threads
    for (int d = 0; d < 4; ++d) EXPECT_EQ(memory_use(d).total(), 0) << "device " << d << " still holds memory";
  }

  /// Trains an LSTM, which carries state, on a stream of random tokens. An epoch is eleven steps of eight rows and one
  /// of a single row.
  void use_text() {
    std::mt19937 random(11);
    std::vector<int32_t> tokens((8 * 11 + 1) * 5 + 1);
    for (int32_t& token : tokens) token = int32_t(random() % 7);
    data.train = data.test = std::make_shared<TextStream>(tokens, 7, 5);
    experiment.batch = 8;
    experiment.model_name = "lstm-lm";
    experiment.model_options = {{"width", 8}, {"probability", 0.2}};
  }

  std::shared_ptr<MemoryDataset> train_set = std::make_shared<MemoryDataset>(210, 1),
                                 test_set = std::make_shared<MemoryDataset>(90, 2);
  TaskData data;
  RunSpec experiment;
  std::atomic<bool> interrupted{false};
};

}  // namespace trireme::test_support
