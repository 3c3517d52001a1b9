#include <numeric>

#include "data/tables/table.h"
#include "fuzz_input.h"

namespace {

using trireme::CsvTable;

/// Reads every field of a table and encodes the table by its own rows.
void use(const CsvTable& table, trireme::OnError on_error) {
  size_t bytes = 0;
  for (int64_t row = 0; row < table.rows(); ++row)
    for (int64_t column = 0; column < table.columns(); ++column)
      bytes += table.field(row, column).size() + table.position(row, column).size() + table.is_missing(row, column);
  if (table.rows() < 1 || bytes == 0) std::abort();  // a position is never empty
  std::vector<int64_t> rows(size_t(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const trireme::TableEncoder encoder(table, rows, {.on_error = on_error});
  const auto encoded = encoder.encode(table, rows);
  if (encoded.data.size(0) != table.rows() - encoded.skipped || encoded.unknown_categories != 0) std::abort();
  if (encoded.data.size(1) != int64_t(encoder.feature_names().size())) std::abort();
}

}  // namespace

/// The first byte chooses the options, the other bytes are the table.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const trireme::CsvOptions options{.separator = data[0] & 1 ? ';' : ',',
                                    .header = (data[0] & 2) != 0,
                                    .trim = (data[0] & 4) != 0,
                                    .comment = data[0] & 8 ? "|" : "",
                                    .on_error = data[0] & 16 ? trireme::OnError::skip : trireme::OnError::fail};
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  trireme::fuzz::expect_success_or_user_error(
      [&] { use(trireme::parse_csv(text, "input", options), options.on_error); });
  return 0;
}
