// The registry of backends: names on the command line, and the properties of each backend.
#include "comm/backend_list.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/gloo/gloo.h"
#include "comm/mpi/mpi.h"

namespace trireme {
namespace {

TEST(Backends, AreFoundByName) {
  std::set<std::string> names;
  for (const BackendKind* kind : backend_kinds()) {
    EXPECT_EQ(look_up_backend(kind->name), kind);
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    EXPECT_NE(std::string(kind->purpose), "") << kind->name;
  }
  EXPECT_EQ(look_up_backend(""), nullptr);
  EXPECT_EQ(look_up_backend("gloom"), nullptr);
}

TEST(Backends, ThatARunCanUse) {
  EXPECT_EQ(backend_choices(), (std::vector<std::string>{"gloo", "mpi", "nccl", "virtual"}));
  EXPECT_EQ(&usual_process_backend(), &kGlooBackend);
  for (const BackendKind* kind : backend_kinds()) {
    if (!kind->can_be_chosen()) continue;
    EXPECT_NE(std::string(kind->help), "") << kind->name;
    EXPECT_EQ(kind->join != nullptr, kind->processes) << kind->name;
    if (kind->processes) {
      EXPECT_NE(std::string(kind->start), "") << kind->name;
    }
    if (kind->finds_ranks) {
      EXPECT_NE(std::string(kind->interface_why), "") << kind->name;
    }
  }
}

TEST(Backends, AreAvailableAsBuilt) {
  EXPECT_TRUE(kLocalBackend.is_available());
  EXPECT_TRUE(kVirtualBackend.is_available());
  EXPECT_EQ(kGlooBackend.is_available(), gloo_available());
  EXPECT_EQ(kMpiBackend.is_available(), mpi_available());
}

}  // namespace
}  // namespace trireme
