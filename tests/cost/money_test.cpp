#include "cost/money.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// Two machines with two devices each; they cost 10 and 20 an hour.
Cluster two_machines() {
  Cluster cluster = Cluster::uniform(4);
  cluster.nodes.resize(2);
  cluster.nodes[0].price_per_hour = 10;
  cluster.nodes[1].price_per_hour = 20;
  cluster.price = {.currency = "EUR", .date = "2024-05", .source = "a list"};
  return cluster;
}

TEST(Money, IsTimeByPrice) {
  const Cluster cluster = two_machines();
  ASSERT_TRUE(price_per_hour(cluster));
  EXPECT_DOUBLE_EQ(price_per_hour(cluster)->amount, 30);
  EXPECT_EQ(price_per_hour(cluster)->currency, "EUR");
  EXPECT_DOUBLE_EQ(price_of(cluster, 120)->amount, 1);
  EXPECT_DOUBLE_EQ(price_per_epoch(cluster, 0.5, 240)->amount, 1);
  EXPECT_EQ(price_note(cluster), "a list, 2024-05");
}

TEST(Money, IsNotGuessed) {
  Cluster cluster = two_machines();
  cluster.nodes[1].price_per_hour = 0;
  EXPECT_FALSE(price_per_hour(cluster));
  EXPECT_FALSE(price_per_epoch(cluster, 1, 1));
  EXPECT_FALSE(price_per_hour(Cluster::uniform(4)));
  EXPECT_EQ(format_money(price_of(cluster, 60)), "-");
  EXPECT_EQ(price_note(cluster), "");
}

TEST(Money, ReadsWithThreeDigits) {
  auto text = [](double amount) { return format_money(Money{amount, "USD"}); };
  EXPECT_EQ(text(0), "0 USD");
  EXPECT_EQ(text(0.0012345), "0.00123 USD");
  EXPECT_EQ(text(0.5), "0.500 USD");
  EXPECT_EQ(text(1), "1.00 USD");
  EXPECT_EQ(text(9.996), "10.0 USD");
  EXPECT_EQ(text(12.34), "12.3 USD");
  EXPECT_EQ(text(99.96), "100 USD");
  EXPECT_EQ(text(123.4), "123 USD");
  EXPECT_EQ(text(999.6), "1000 USD");
  EXPECT_EQ(text(1234.5678), "1235 USD");
  EXPECT_EQ(text(4600000), "4600000 USD");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "-");
}

}  // namespace
}  // namespace trireme
