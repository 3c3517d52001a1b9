// The list is a view of base/machine.h and needs nothing of the program around it: so it is tested here, without one.
#include "cli/doctor.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"

namespace trireme {
namespace {

TEST(Doctor, ListsWhatTheMachineHasAndWhatIsSlow) {
  std::ostringstream out;
  EXPECT_EQ(run_doctor(out), 0);
  const std::string text = out.str();
  for (const char* name : {"cores", "instructions", "memory", "GPUs", "libtorch", "BLAS", "oneDNN", "malloc", "MPI"})
    EXPECT_THAT(text, ::testing::HasSubstr(std::string("\n  ") + name + " ")) << "not a line of its own";
  const Machine machine = inspect_machine(false);
  EXPECT_THAT(text, ::testing::HasSubstr(machine.blas.name));
  for (const std::string& warning : slow_warnings(machine))
    EXPECT_THAT(text, ::testing::HasSubstr("  - " + warning + "\n"));
}

}  // namespace
}  // namespace trireme
