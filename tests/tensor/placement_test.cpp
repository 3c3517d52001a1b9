#include "trireme/placement.h"

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {
namespace {

TEST(ShareOf, CoversTheLengthInOrderWithSizesThatDifferByOne) {
  for (const int64_t length : {0, 1, 5, 8, 17, 100}) {
    for (const int parts : {1, 2, 3, 7, 8}) {
      int64_t next = 0, previous = length;
      for (int i = 0; i < parts; ++i) {
        const Range range = share_of(length, parts, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), previous);
        EXPECT_GE(range.size(), length / parts);
        EXPECT_LE(range.size(), length / parts + 1);
        next = range.end;
        previous = range.size();
      }
      EXPECT_EQ(next, length);
    }
  }
}

TEST(Boxes, IntersectAndRelate) {
  const Box a{{0, 4}, {2, 6}}, b{{3, 9}, {0, 5}};
  EXPECT_EQ(intersect(a, b), (Box{{3, 4}, {2, 5}}));
  EXPECT_EQ(relative_to(intersect(a, b), a), (Box{{3, 4}, {0, 3}}));
  EXPECT_TRUE(is_empty(intersect(a, Box{{4, 9}, {0, 5}})));
  EXPECT_FALSE(is_empty(whole({})));
  EXPECT_TRUE(is_empty(whole({3, 0})));
  EXPECT_EQ(shape_of(a), (Shape{4, 4}));
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({}), 1);
}

TEST(MeshGroups, FollowTheAxes) {
  const Mesh mesh{{4, 5, 6, 7, 8, 9}, 2, 3};
  EXPECT_EQ(mesh.index_of(8), 4);
  EXPECT_EQ(mesh.index_of(3), -1);
  EXPECT_EQ(mesh.data_group(8), (std::vector<int>{5, 8}));
  EXPECT_EQ(mesh.tensor_group(8), (std::vector<int>{7, 8, 9}));
}

TEST(LayoutBox, ShardsBothAxes) {
  const Layout layout{{{0, 1, 2, 3, 4, 5}, 2, 3}, Placement::shard(0), Placement::shard(1)};
  EXPECT_EQ(layout.box_of(4, {5, 7}), (Box{{3, 5}, {3, 5}}));
  EXPECT_EQ(to_string(layout), "[Shard(0), Shard(1)] on 2x3");
  EXPECT_EQ(to_string(Shape{64, 3}), "[64, 3]");
}

TEST(LayoutBox, RefusesWhatCannotBe) {
  const Mesh mesh{{0, 1, 2, 3}, 2, 2};
  EXPECT_THROW((Layout{mesh, Placement::shard(0), Placement::shard(0)}.box_of(0, {4, 4})), Error);
  EXPECT_THROW((Layout{mesh, Placement::shard(2), Placement::replicate()}.box_of(0, {4, 4})), Error);
  EXPECT_THROW((Layout{mesh, Placement::shard(0), Placement::replicate()}.box_of(9, {4, 4})), Error);
}

}  // namespace
}  // namespace trireme
