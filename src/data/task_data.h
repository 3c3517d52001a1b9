// Builds TaskData from data sets.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/data_spec.h"
#include "data/source_words.h"
#include "trireme/dataset.h"

namespace trireme {

/// Takes the first spec.train_limit and spec.test_limit samples. TaskData::source consists of `title`, the part of the
/// sets that is used, and `notes`.
template <class Set>
TaskData limited_task(const DataSpec& spec, std::shared_ptr<Set> train, std::shared_ptr<Set> test,
                      const std::string& title, const char* unit, const std::string& notes = "") {
  const int64_t whole_train = train->size(), whole_test = test->size();
  train->keep_first(spec.train_limit);
  test->keep_first(spec.test_limit);
  TaskData task;
  task.source = title + used_part(train->size(), whole_train, test->size(), whole_test, unit) + notes;
  task.train = std::move(train);
  task.test = std::move(test);
  return task;
}

/// Returns the number of a set's samples under a limit; 0: no limit.
inline int64_t limited(int64_t limit, int64_t whole) { return limit > 0 && limit < whole ? limit : whole; }

}  // namespace trireme
