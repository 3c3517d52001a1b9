// Common base of tests with whole runs on a tiny task.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "base/memory.h"
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

  std::shared_ptr<MemoryDataset> train_set = std::make_shared<MemoryDataset>(210, 1),
                                 test_set = std::make_shared<MemoryDataset>(90, 2);
  TaskData data;
  RunSpec experiment;
  std::atomic<bool> interrupted{false};
};

}  // namespace trireme::test_support
