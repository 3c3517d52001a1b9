#include <fmt/format.h>

#include <cmath>

#include "data/catalogue.h"
#include "data/tables/table_sets.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

void read_csv_keys(const ConfigTable& table, const std::filesystem::path&, DataSpec& spec) {
  TableSpec& t = spec.table;
  const std::string separator = table.get_string("separator", std::string(1, t.separator));
  if (separator.size() != 1) table.fail("separator", "is one character", "write \",\", \";\" or \"\\t\"");
  t.separator = separator.front();
  t.header = table.get_bool("header", t.header);
  t.missing = table.get_strings("missing", {});
  t.test_share = table.get_double("test_share", t.test_share, 0);
  TableOptions& columns = t.columns;
  columns.target = table.get_string("target", columns.target);
  columns.task = read_task(table);
  columns.left_out = table.get_strings("leave_out", {});
  columns.target_unit = table.get_double("target_unit", columns.target_unit);
  columns.label_tail = table.get_string("label_tail", columns.label_tail);
  const ConfigTable kinds = table.table("columns");
  for (const std::string& name : kinds.keys())
    columns.kinds[name] = kinds.get_choice(name, "", {"numeric", "categorical"}) == "numeric" ? ColumnKind::numeric
                                                                                              : ColumnKind::categorical;
}

TaskData open_csv(const DataSpec& spec, const KnownSet&, const std::filesystem::path&) {
  if (spec.train_files.size() != 1 || spec.test_files.size() > 1)
    fail_user({.where = "data.train",
               .what = fmt::format("{} training and {} test files", spec.train_files.size(), spec.test_files.size()),
               .why = "data set \"csv\" takes one training file and at most one test file",
               .next = "name one file: train = \"table.csv\""});
  const CsvOptions csv{.separator = spec.table.separator,
                       .header = spec.table.header,
                       .trim = true,
                       .missing = spec.table.missing,
                       .on_error = spec.on_error};
  TableOptions options = spec.table.columns;
  options.on_error = spec.on_error;
  if (!std::isfinite(options.target_unit) || options.target_unit == 0)
    fail_user({.where = "data.target_unit",
               .what = fmt::format("{}", options.target_unit),
               .why = "targets are divided by it",
               .next = "set a number other than 0"});
  const CsvTable train = read_csv(spec.train_files[0], csv);
  const std::string title = spec.train_files[0].string();
  if (spec.test_files.empty()) return open_one_table(spec, train, spec.table.test_share, options, title);
  const CsvTable test = read_csv(spec.test_files[0], csv);
  return make_tables({train, all_rows(train), spec.train_limit}, {test, all_rows(test), spec.test_limit}, options,
                     title);
}

}  // namespace

KnownSet csv() {
  return {.name = "csv",
          .title = "a table",
          .description = "any table of comma-separated values",
          .origin = DataOrigin::own_files,
          .keys = {"task", "target", "leave_out", "target_unit", "label_tail", "columns", "separator", "header",
                   "missing", "test_share", "on_error"},
          .read = read_csv_keys,
          .open = open_csv,
          .shape = [](const DataSpec& spec) { return SetShape{.task = spec.table.columns.task}; }};
}

}  // namespace trireme::sets
