// Under mpirun and nccl_ranks.sh every process runs all tests at the same time. Rank 0 reports as usual, the other
// ranks report only failures.
#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "comm/backends.h"

namespace {

class FailurePrinter final : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::ostringstream line;  // one write per line, because other processes write too
    line << "rank " << rank_ << ": " << (result.file_name() ? result.file_name() : "") << ":" << result.line_number()
         << ": " << result.message() << "\n";
    std::cerr << line.str();
  }

 private:
  const int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new trireme::test_support::DeviceUnderTest);
  const auto in_mpi = trireme::test_support::place_in_mpi();
  const auto in_nccl = trireme::test_support::place_in_nccl();
  const int rank = in_nccl ? in_nccl->rank : in_mpi ? in_mpi->rank : 0;
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  return RUN_ALL_TESTS();
}
