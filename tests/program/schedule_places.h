// Lists all small pipelines that can run a schedule.
#pragma once

#include <functional>

#include <gtest/gtest.h>

#include "trireme/schedule.h"

namespace trireme {

inline bool fits(const Schedule& schedule, const PipelinePlace& place) { return schedule.misfit(place).why.empty(); }

/// Calls `f` for every position of every small pipeline that can run the schedule.
inline void for_each_place(const Schedule& schedule, const std::function<void(const PipelinePlace&)>& f) {
  int places = 0;
  for (int p = 1; p <= 6; ++p)
    for (int v = 1; v <= 3; ++v)
      for (int m = 1; m <= 18; ++m)
        for (int s = 0; s < p; ++s) {
          const PipelinePlace place{s, p, v, m};
          if (!fits(schedule, place)) continue;
          SCOPED_TRACE(::testing::Message() << schedule.name << " s=" << s << " p=" << p << " v=" << v << " m=" << m);
          f(place);
          ++places;
        }
  EXPECT_GE(places, 6 * 7 / 2);
}

}  // namespace trireme
