#include "cli/data_to_predict.h"

#include <fmt/format.h>

#include <iostream>

#include "data/open.h"

namespace trireme {

TaskData data_to_predict(const DataSpec& spec) {
  TaskData data = open_data_or_shape(spec);
  if (!has_samples(*data.train))
    std::cerr << fmt::format("trireme: data: {}; loading is predicted to take no time\n", data.source);
  return data;
}

}  // namespace trireme
