// Links as they are measured between two steps.
#include <gtest/gtest.h>

#include <vector>

#include "comm/backends.h"
#include "comm/gloo/gloo.h"
#include "profile/measure_links.h"
#include "profile/probe_link.h"

namespace trireme {
namespace {

TEST(ProbeLink, CountsTheWorkOfMessages) {
  if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  test_support::run_gloo_ranks(2, [&](Communicator& c) {
    LinkEstimate link;  // on a busy machine the first message may last long enough, and says nothing of bytes
    for (int attempt = 0; attempt < 50 && link.work.of_byte == 0; ++attempt) link = probe_links(c, {{0, 1}});
    EXPECT_GT(link.bandwidth, 1e6);
    EXPECT_GT(link.latency, 0);
    EXPECT_GT(link.work.of_message, 0);
    EXPECT_GT(link.work.of_byte, 0);
    EXPECT_LT(link.work.of_byte, 1e-7) << "hundreds of instructions for a byte";
  });
}

TEST(ProbeLink, MeasuresRedistributionsAlikeOnAllRanks) {
  if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  std::vector<RedistributionWork> of_rank(2);
  test_support::run_gloo_ranks(2, [&](Communicator& c) { of_rank[size_t(c.rank())] = measure_redistributions(c); });
  ASSERT_EQ(of_rank[0].of.size(), 4u);
  EXPECT_EQ(of_rank[0].ranks, 2);
  for (const auto& [kind, work] : of_rank[0].of) {
    EXPECT_GT(work.of_message + work.of_byte, 0) << name_of(kind);
    EXPECT_EQ(work.of_byte, of_rank[1].of.at(kind).of_byte);
    EXPECT_EQ(work.of_message, of_rank[1].of.at(kind).of_message);
  }
}

}  // namespace
}  // namespace trireme
