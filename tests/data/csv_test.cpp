#include "data/tables/csv.h"

#include <random>

#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const CsvTable& table) {
  std::vector<Row> rows;
  for (int64_t r = 0; r < table.rows(); ++r) {
    rows.emplace_back();
    for (int64_t c = 0; c < table.columns(); ++c) rows.back().emplace_back(table.field(r, c));
  }
  return rows;
}

std::vector<Row> parse(const std::string& text, CsvOptions options = {}) {
  options.header = false;
  return rows_of(parse_csv(text, "t.csv", options));
}

std::string error_in(const std::string& text, CsvOptions options = {}) {
  return error_of([&] { parse_csv(text, "t.csv", options); });
}

TEST(Csv, ReadsQuotesLineEndsAndEmptyFields) {
  EXPECT_THAT(parse("a,b\r\n1,\"x, \"\"y\"\"\"\r\n"), ElementsAre(Row{"a", "b"}, Row{"1", "x, \"y\""}));
  EXPECT_THAT(parse("a,b\n,\n\"\",\"two\nlines\""), ElementsAre(Row{"a", "b"}, Row{"", ""}, Row{"", "two\nlines"}));
  EXPECT_THAT(parse("a\rb\r\r\nc"), ElementsAre(Row{"a"}, Row{"b"}, Row{"c"}))
      << "CR alone ends a row, an empty line is none";
  EXPECT_THAT(parse("5\" disk,b\n"), ElementsAre(Row{"5\" disk", "b"}));
  EXPECT_THAT(parse("a;b,c\n", {.separator = ';'}), ElementsAre(Row{"a", "b,c"}));
  EXPECT_THAT(parse("\xEF\xBB\xBF"
                    "a,b\n"),
              ElementsAre(Row{"a", "b"}))
      << "a byte order mark is no part of the first field";
}

TEST(Csv, TrimsBlanksOutsideQuotesWhenAsked) {
  EXPECT_THAT(parse(" a , \" b \" ,c \n  \n\t\n"
                    " 1,2,3\n",
                    {.trim = true}),
              ElementsAre(Row{"a", " b ", "c"}, Row{"1", "2", "3"}));
  EXPECT_THAT(parse(" a , b\n"), ElementsAre(Row{" a ", " b"}));
  EXPECT_THAT(parse("a\t b\t\n", {.separator = '\t', .trim = true}), ElementsAre(Row{"a", "b", ""}))
      << "a tab that separates is no blank";
}

TEST(Csv, NamesColumns) {
  const CsvTable table = parse_csv("x,,\"a,b\"\n1,2,3\n", "t.csv");
  EXPECT_THAT(table.names(), ElementsAre("x", "column 2", "a,b"));
  EXPECT_EQ(table.rows(), 1);
  EXPECT_THAT(parse_csv("1,2\n", "t.csv", {.header = false}).names(), ElementsAre("column 1", "column 2"));
  EXPECT_THAT(parse_csv("|note\n1,2\n", "t.csv", {.header = false, .names = {"a", "b"}, .comment = "|"}).names(),
              ElementsAre("a", "b"));
  EXPECT_THAT(error_in("x,y,x\n1,2,3\n"),
              AllOf(HasSubstr("t.csv:1:5"), HasSubstr("\"x\""), HasSubstr("columns 1 and 3")));
}

TEST(Csv, KnowsMissingValuesAndWhereFieldsStand) {
  const CsvTable table = parse_csv("a,b\n\"l1\nl2\",?\nNA,nan\n,0\n", "t.csv");
  EXPECT_FALSE(table.is_missing(0, 0));
  for (auto [row, column] : {std::pair{0, 1}, {1, 0}, {1, 1}, {2, 0}}) EXPECT_TRUE(table.is_missing(row, column));
  EXPECT_FALSE(table.is_missing(2, 1));
  EXPECT_EQ(table.position(0, 1), "t.csv:3:5") << "the row has a line end inside quotes";
  EXPECT_EQ(table.position(2, 1), "t.csv:5:2");
}

TEST(Csv, TakesMoreMarksOfMissingValues) {
  const CsvTable table = parse_csv("a,b\n-,N/A\n-1,?\n", "t.csv", {.missing = {"-", "N/A"}});
  EXPECT_TRUE(table.is_missing(0, 0) && table.is_missing(0, 1) && table.is_missing(1, 1));
  EXPECT_FALSE(table.is_missing(1, 0));
}

TEST(Csv, NamesThePlaceOfARaggedRow) {
  EXPECT_THAT(error_in("a,b\n1,2\n3\n"),
              AllOf(HasSubstr("t.csv:3:2"), HasSubstr("1 field"), HasSubstr("header has 2"), HasSubstr("skip")));
  EXPECT_THAT(error_in("a,b\n1,2,33,4\n"), AllOf(HasSubstr("t.csv:2:5"), HasSubstr("4 fields")));
  EXPECT_THAT(error_in("1\n1,2\n", {.header = false}), AllOf(HasSubstr("t.csv:2:3"), HasSubstr("first row has 1")));
  EXPECT_THAT(error_in("1,2\n", {.header = false, .names = {"a"}}), HasSubstr("columns are 1"));
}

TEST(Csv, NamesThePlaceOfBadQuotes) {
  EXPECT_THAT(error_in("a,b\n\"1\"x,2\n"), AllOf(HasSubstr("t.csv:2:4"), HasSubstr("closing quote")));
  EXPECT_THAT(error_in("a,b\n1,\"2\n3,4\n"), AllOf(HasSubstr("t.csv:2:3"), HasSubstr("without its closing quote")));
  EXPECT_THAT(error_in("a,b\n1,\"2\n3,4\n", {.on_error = OnError::skip}), HasSubstr("t.csv:2:3"))
      << "half the file must not be skipped";
}

TEST(Csv, NamesTheByteThatIsNotUtf8) {
  EXPECT_THAT(error_in("a,b\n1,x\xff\n"),
              AllOf(HasSubstr("t.csv:2:4"), HasSubstr("position 7"), HasSubstr("not UTF-8")));
  EXPECT_THAT(error_in("a,\xc3\n1,2\n"), HasSubstr("t.csv:1:3"));
  EXPECT_THAT(parse("\"\"\"\xc3\xa9\"\"\",b\n"), ElementsAre(Row{"\"\xc3\xa9\"", "b"}))
      << "taking out quotes breaks no character";
}

TEST(Csv, SkipsAndCountsBadRowsWhenAsked) {
  const CsvTable table =
      parse_csv("a,b\n1,2\n3\n4,5,6\n\"7\"x,8\n9,\xfe\n10,11\n", "t.csv", {.on_error = OnError::skip});
  EXPECT_THAT(rows_of(table), ElementsAre(Row{"1", "2"}, Row{"10", "11"}));
  EXPECT_EQ(table.skipped(), 4);
  EXPECT_THAT(error_in("a,b\n1\n", {.on_error = OnError::skip}),
              AllOf(HasSubstr("no rows"), HasSubstr("all 1 were left out")));
  EXPECT_THAT(error_in("a,b\n"), HasSubstr("no rows"));
}

TEST(Csv, ReadsGzippedFiles) {
  TemporaryFolder folder;
  write_gzip(folder / "t.csv.gz", "a,b\n1,2\n");
  EXPECT_THAT(rows_of(read_csv(folder / "t.csv.gz")), ElementsAre(Row{"1", "2"}));
  std::filesystem::resize_file(folder / "t.csv.gz", std::filesystem::file_size(folder / "t.csv.gz") - 5);
  EXPECT_THAT(error_of([&] { read_csv(folder / "t.csv.gz"); }), HasSubstr("the file is damaged or cut short"));
  EXPECT_THAT(error_of([&] { read_csv(folder / "no.csv"); }), HasSubstr("no such file"));
}

/// Random tables, written with correct quotes, are read back unchanged.
TEST(Csv, ReadsBackRandomTables) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::vector<std::string> pieces{"a", ",", "\"", "\n", "\r\n", "\r", "ß", "7", " "};
  for (int round = 0; round < 200; ++round) {
    const size_t width = 1 + below(4), height = 1 + below(6);
    const std::string line_end = std::vector<std::string>{"\n", "\r\n", "\r"}[below(3)];
    std::vector<Row> rows(height, Row(width));
    std::string text;
    for (Row& row : rows) {
      for (size_t c = 0; c < width; ++c) {
        for (size_t i = below(5); i > 0; --i) row[c] += pieces[below(pieces.size())];
        const bool quoted =
            row[c].find_first_of(",\"\r\n") != std::string::npos || (width == 1 && row[c].empty()) || below(3) == 0;
        std::string field;
        for (const char character : row[c]) field += quoted && character == '"' ? "\"\"" : std::string(1, character);
        text += (c > 0 ? "," : "") + (quoted ? "\"" + field + "\"" : field);
      }
      text += line_end;
    }
    ASSERT_EQ(parse(text), rows) << text;
  }
}

}  // namespace
}  // namespace trireme
