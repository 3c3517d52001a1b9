// The table of each device's memory by category, and how tables show a row's devices.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/units.h"
#include "report/columns.h"
#include "report/quantities.h"

namespace trireme {
namespace {

constexpr size_t kMostDevices = 8;  ///< lines of devices per row; more are folded into one

/// Returns the number of consecutive devices from `first` with the same memory if it is at least kMany; otherwise 1.
size_t alike_from(const std::vector<MemoryUse>& memory, size_t first) {
  constexpr size_t kMany = 4;
  size_t end = first + 1;
  while (end < memory.size() && memory[end].at_peak == memory[first].at_peak && memory[end].peak == memory[first].peak)
    ++end;
  return end - first >= kMany ? end - first : 1;
}

/// "1.20", or "1.20-3.40" for devices that differ.
std::string bytes_text(const std::vector<MemoryUse>& memory, size_t first, size_t count, const Scale& scale,
                       const std::function<int64_t(const MemoryUse&)>& bytes) {
  const auto [least, most] =
      std::minmax_element(memory.begin() + std::ptrdiff_t(first), memory.begin() + std::ptrdiff_t(first + count),
                          [&](const MemoryUse& a, const MemoryUse& b) { return bytes(a) < bytes(b); });
  const std::string low = significant(double(bytes(*least)) / scale.size);
  const std::string high = significant(double(bytes(*most)) / scale.size);
  return low == high ? low : low + "-" + high;
}

/// Returns the numbers of devices per line of a row.
std::vector<size_t> lines_of_devices(const std::vector<MemoryUse>& memory, bool fold) {
  std::vector<size_t> counts;
  for (size_t device = 0; device < memory.size(); device += counts.back()) counts.push_back(alike_from(memory, device));
  return fold && counts.size() > kMostDevices ? std::vector<size_t>{memory.size()} : counts;
}

}  // namespace

std::vector<Column> memory_columns(const ExperimentResult& result, bool fold) {
  double largest = 0;
  for (const RunResult& row : result.rows) largest = std::max(largest, peak_memory(row).value_or(0));
  if (largest == 0) return {};
  Scale scale = scale_for(kBytes, largest);
  std::vector<Column> columns = {{"strategy", "", false, {}}, {"devices", "", true, {}}, {"device", "", true, {}}};
  for (int c = 0; c < kMemoryCategories; ++c)
    columns.push_back({name_of(static_cast<MemoryCategory>(c)), scale.unit, true, {}});
  columns.push_back({"peak", scale.unit, true, {}});
  for (const RunResult& row : result.rows) {
    size_t device = 0;
    for (const size_t count : lines_of_devices(row.memory, fold)) {
      size_t i = 0;
      columns[i++].cells.push_back(variant_name(row));
      columns[i++].cells.push_back(devices_cell(row));
      columns[i++].cells.push_back(count == 1 ? fmt::format("{}", device)
                                              : fmt::format("{} to {}", device, device + count - 1));
      for (size_t c = 0; c < size_t(kMemoryCategories); ++c)
        columns[i++].cells.push_back(
            bytes_text(row.memory, device, count, scale, [c](const MemoryUse& use) { return use.at_peak[c]; }));
      columns[i].cells.push_back(
          bytes_text(row.memory, device, count, scale, [](const MemoryUse& use) { return use.peak; }));
      device += count;
    }
  }
  return columns;
}

std::string devices_cell(const RunResult& row) {
  const auto [least, most] = std::minmax_element(row.group_devices.begin(), row.group_devices.end());
  return row.group_devices.empty() ? std::to_string(row.devices)
                                   : fmt::format("{} ({} to {})", row.devices, *least, *most);
}

}  // namespace trireme
