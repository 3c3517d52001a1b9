#include "data/tables/table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "data/open.h"
#include "data/tables/table_sets.h"
#include "data/tables/tensor_dataset.h"
#include "real_data.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> rows_of(const CsvTable& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

TableEncoder learn(const CsvTable& table, TableOptions options = {}) {
  return TableEncoder(table, rows_of(table), std::move(options));
}

void expect_near(const at::Tensor& found, const std::vector<double>& expected) {
  EXPECT_TRUE(at::allclose(found.to(at::kDouble).flatten(), at::tensor(expected, at::kDouble), 1e-6, 1e-6)) << found;
}

TEST(Numbers, AreWholeFiniteDecimals) {
  EXPECT_EQ(parse_number("-12.5e1"), -125.0);
  EXPECT_EQ(parse_number("+3"), 3.0);
  for (const char* text : {"1e-400", "+1e-99999"}) EXPECT_EQ(parse_number(text), 0.0) << text;
  EXPECT_EQ(parse_number("-1e-400"), 0.0);
  EXPECT_EQ(parse_number("4e-320"), 4e-320);
  for (const char* text : {"-1e999", "", "1x", "0x10", "inf", "nan", "1,5", "+-1", "1 ", "1e999"})
    EXPECT_FALSE(parse_number(text)) << text;
}

TEST(TableEncoder, StandardisesNumbersAndMarksFilledOnes) {
  // The median of 1, 2, 6 is 2. With 2 filled in, the mean is 2.75 and the squares add up to 3.0625 + 2 * 0.5625 +
  // 10.5625 = 14.75.
  const CsvTable train = parse_csv("x,same,y\n1,7,10\n2,7,20\n?,7,30\n6,7,40\n", "t.csv");
  const TableEncoder encoder = learn(train);
  EXPECT_THAT(encoder.feature_names(), ElementsAre("x", "x missing", "same"));
  EXPECT_EQ(encoder.task(), LearningTask::regression);
  EXPECT_EQ(encoder.classes(), 1);
  const double deviation = std::sqrt(14.75 / 4);
  const auto encoded = encoder.encode(train, std::vector<int64_t>{0, 2, 3});
  expect_near(encoded.data, {-1.75 / deviation, 0, 0, -0.75 / deviation, 1, 0, 3.25 / deviation, 0, 0});
  EXPECT_EQ(encoded.data.scalar_type(), at::kFloat);
  EXPECT_EQ(encoded.target.sizes(), (std::vector<int64_t>{3, 1}));
  expect_near(encoded.target, {10, 30, 40});
}

TEST(TableEncoder, TestRowsAreMeasuredByTheTrainingRows) {
  const CsvTable train = parse_csv("x,c,y\n0,b,1\n2,a,2\n", "train.csv"),
                 test = parse_csv("y,c,x\n5,z,3\n6,b,\n7,?,1\n", "test.csv");
  const auto encoded = learn(train, {.target_unit = 10}).encode(test, rows_of(test));  // mean 1, deviation 1, median 1
  expect_near(encoded.data, {2, 0, 0, 0, 0, 1, 0, 0, 0});
  expect_near(encoded.target, {0.5, 0.6, 0.7});
  EXPECT_EQ(encoded.unknown_categories, 2) << "z, and a missing value where the training rows have none";
}

TEST(TableEncoder, TurnsCategoriesIntoOneFeatureEach) {
  const CsvTable table = parse_csv("c,d,y\nred,1,no\n,2,yes\nblue,x,no\n", "t.csv");
  const TableEncoder encoder = learn(table);
  EXPECT_THAT(encoder.feature_names(), ElementsAre("c = blue", "c = red", "c missing", "d = 1", "d = 2", "d = x"));
  EXPECT_THAT(encoder.labels(), ElementsAre("no", "yes"));
  const auto encoded = encoder.encode(table, rows_of(table));
  expect_near(encoded.data, {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1});
  EXPECT_TRUE(at::equal(encoded.target, at::tensor({0, 1, 0}, at::kLong)));
}

TEST(TableEncoder, DoesAsIsStated) {
  const CsvTable table = parse_csv("zip,id,y,x\n1010,1,0.,3\n2020,2,1,4\n", "t.csv");
  const TableEncoder encoder = learn(table, {.target = "y",
                                             .task = LearningTask::classification,
                                             .kinds = {{"zip", ColumnKind::categorical}},
                                             .left_out = {"id"},
                                             .label_tail = "."});
  EXPECT_THAT(encoder.feature_names(), ElementsAre("zip = 1010", "zip = 2020", "x"));
  EXPECT_THAT(encoder.labels(), ElementsAre("0", "1"));
  EXPECT_THAT(error_of([&] { learn(table, {.target = "z"}); }), AllOf(HasSubstr("data.target"), HasSubstr("\"z\"")));
  EXPECT_THAT(error_of([&] { learn(table, {.left_out = {"idd"}}); }),
              AllOf(HasSubstr("data.leave_out"), HasSubstr("did you mean \"id\"")));
  EXPECT_THAT(error_of([&] { learn(table, {.kinds = {{"q", ColumnKind::numeric}}}); }), HasSubstr("data.columns"));
}

TEST(TableEncoder, RefusesOptionsOfTheOtherTask) {
  const CsvTable numbers = parse_csv("x,y\n1,10\n2,20\n", "t.csv"), labels = parse_csv("x,y\n1,a.\n2,b\n", "t.csv");
  EXPECT_THAT(error_of([&] { learn(labels, {.target_unit = 10}); }),
              AllOf(HasSubstr("data.target_unit: 10"), HasSubstr("classification"), HasSubstr("leave it out")));
  EXPECT_THAT(error_of([&] { learn(numbers, {.label_tail = "."}); }),
              AllOf(HasSubstr("data.label_tail: \".\""), HasSubstr("regression"), HasSubstr("leave it out")));
  EXPECT_THAT(learn(labels, {.label_tail = "."}).labels(), ElementsAre("a", "b"));
  EXPECT_EQ(learn(numbers, {.target_unit = 10}).task(), LearningTask::regression);
}

TEST(TableEncoder, RefusesTablesThatCannotBeLearnedFrom) {
  EXPECT_THAT(error_of([] { learn(parse_csv("x,y\n?,1\nNA,2\n", "t.csv")); }),
              AllOf(HasSubstr("column \"x\""), HasSubstr("no values"), HasSubstr("leave_out = [\"x\"]")));
  EXPECT_THAT(error_of([] { learn(parse_csv("y\n1\n2\n", "t.csv")); }), HasSubstr("no features"));
  EXPECT_THAT(error_of([] { learn(parse_csv("x,y\n1,a\n2,a\n", "t.csv")); }), HasSubstr("1 different labels"));
  EXPECT_THAT(error_of([] {
                learn(parse_csv("x,y\n1,1\nred,2\n", "t.csv"), {.kinds = {{"x", ColumnKind::numeric}}});
              }),
              AllOf(HasSubstr("t.csv:3:1"), HasSubstr("\"red\""), HasSubstr("holds numbers")));
  EXPECT_THAT(error_of([] { learn(parse_csv("x,y\n1e200,1\n2,2\n", "t.csv")); }),
              AllOf(HasSubstr("column \"x\""), HasSubstr("too large")));
  EXPECT_THAT(error_of([] { learn(parse_csv("x,y\n1,1\n2,2\n", "t.csv"), {.target = "y", .left_out = {"y"}}); }),
              AllOf(HasSubstr("data.leave_out"), HasSubstr("\"y\""), HasSubstr("the target")));
  std::string many = "x,y\n";
  for (int i = 0; i <= TableEncoder::kMaxCategories; ++i) many += "name" + std::to_string(i) + ",1\n";
  EXPECT_THAT(error_of([&] { learn(parse_csv(many, "t.csv")); }),
              AllOf(HasSubstr("more than 1000 different values"), HasSubstr("leave_out = [\"x\"]")));
}

/// Ten rows with nine numbers in the column and `value` in line 7.
std::string nine_numbers_and(const std::string& value) {
  std::string text = "x,y\n";
  for (int row = 0; row < 10; ++row)
    text += (row == 5 ? value : std::to_string(row)) + "," + std::to_string(row) + "\n";
  return text;
}

TEST(TableEncoder, AValueThatIsNoNumberAmongNumbersIsAnErrorAndNoWord) {
  for (const auto& [value, named] : std::vector<std::pair<std::string, std::string>>{
           {"oops", "\"oops\""},
           {"inf", "\"inf\""},
           {"-Infinity", "\"-Infinity\""},
           {"1e999", "\"1e999\""},
           {std::string("5\0", 2), "\"5\\x00\""},
           {"5 m", "\"5 m\""},
           {"n.a.", "\"n.a.\""},
           {std::string(500, 'w'), "\"" + std::string(60, 'w') + "...\""}}) {
    const std::string table = nine_numbers_and(value);
    EXPECT_THAT(error_of([&] { learn(parse_csv(table, "t.csv")); }),
                AllOf(HasSubstr("t.csv:7:1: " + named + " in column \"x\""),
                      HasSubstr("9 of its 10 values are finite numbers"), HasSubstr("columns.\"x\" = \"categorical\""),
                      HasSubstr("missing = ["), HasSubstr("on_error = \"skip\"")));
  }
  const std::string oops = nine_numbers_and("oops");
  EXPECT_THAT(error_of([&] { learn(parse_csv(oops, "t.csv"), {.target = "x"}); }),
              HasSubstr("t.csv:7:1: \"oops\" in column \"x\""))
      << "targets too";
  EXPECT_EQ(learn(parse_csv(oops, "t.csv"), {.kinds = {{"x", ColumnKind::categorical}}}).feature_names().size(), 10u);
  EXPECT_EQ(learn(parse_csv(oops, "t.csv"), {.target = "x", .task = LearningTask::classification}).classes(), 10);
  EXPECT_THAT(learn(parse_csv(oops, "t.csv", {.missing = {"-", "oops"}})).feature_names(),
              ElementsAre("x", "x missing"));
  const CsvTable table = parse_csv(oops, "t.csv");
  const TableEncoder skipping = learn(table, {.on_error = OnError::skip});
  EXPECT_THAT(skipping.feature_names(), ElementsAre("x"));
  const auto encoded = skipping.encode(table, rows_of(table));
  EXPECT_EQ(encoded.skipped, 1);
  EXPECT_EQ(encoded.data.size(0), 9);
}

/// The words are those of pandas.read_csv (na_values of pandas 2), which also takes nan in its usual spellings only.
TEST(TableEncoder, UsualWordsForNoValueDoNotMakeNumbersCategories) {
  for (const char* word :
       {"#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
        "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null",   "NAN",     "Nan"}) {
    const CsvTable table = parse_csv(fmt::format("x,y\n1,1\n{0},2\n{0},3\n3,4\n{0},5\n", word), "t.csv");
    const TableEncoder encoder = learn(table);
    EXPECT_THAT(encoder.feature_names(), ElementsAre("x", "x missing")) << word;
    // The median of 1 and 3 is 2, which is also the mean.
    const double deviation = std::sqrt(2.0 / 5);
    expect_near(encoder.encode(table, rows_of(table)).data, {-1 / deviation, 0, 0, 1, 0, 1, 1 / deviation, 0, 0, 1});
  }
  const CsvTable targets = parse_csv("x,y\n1,1\n2,null\n3,3\n", "t.csv");
  EXPECT_THAT(error_of([&] { learn(targets).encode(targets, rows_of(targets)); }),
              AllOf(HasSubstr("t.csv:3:3"), HasSubstr("no target")));
}

TEST(TableEncoder, AmongWordsTheyAreWords) {
  const CsvTable table = parse_csv("fence,only,y\nwood,None,None\nNone,None,few\n,None,many\nstone,None,few\n", "t");
  const TableEncoder encoder = learn(table);
  EXPECT_THAT(encoder.feature_names(),
              ElementsAre("fence = None", "fence = stone", "fence = wood", "fence missing", "only = None"));
  EXPECT_THAT(encoder.labels(), ElementsAre("None", "few", "many"));
  EXPECT_EQ(encoder.encode(table, rows_of(table)).skipped, 0);
  const CsvTable codes = parse_csv("x,y\n1,1\nnull,2\n2,3\n", "t.csv");
  EXPECT_THAT(learn(codes, {.kinds = {{"x", ColumnKind::categorical}}}).feature_names(),
              ElementsAre("x = 1", "x = 2", "x = null"));
}

TEST(TableEncoder, InfinitiesMakeNoWordsHoweverMany) {
  EXPECT_THAT(error_of([] { learn(parse_csv("x,y\n1,1\ninf,2\n-inf,3\n", "t.csv")); }),
              HasSubstr("t.csv:3:1: \"inf\" in column \"x\""));
  EXPECT_THAT(learn(parse_csv("x,y\n1,1\nfew,2\n-inf,3\n", "t.csv")).feature_names(),
              ElementsAre("x = -inf", "x = 1", "x = few"));
}

TEST(TableEncoder, NamesOrSkipsRowsThatDoNotFit) {
  const CsvTable train = parse_csv("x,y\n1,a\n2,b\n", "train.csv"),
                 test = parse_csv("x,y\n1,a\nlow,b\n3,c\n4,?\n", "test.csv");
  const auto encode = [&](int64_t row) { return [&, row] { learn(train).encode(test, std::vector<int64_t>{row}); }; };
  EXPECT_THAT(error_of(encode(1)), AllOf(HasSubstr("test.csv:3:1"), HasSubstr("\"low\"")));
  EXPECT_THAT(error_of(encode(2)), AllOf(HasSubstr("test.csv:4:3"), HasSubstr("label \"c\"")));
  EXPECT_THAT(error_of(encode(3)), AllOf(HasSubstr("test.csv:5:3"), HasSubstr("no target")));
  const CsvTable numbers = parse_csv("x,y\n1,1\n2,1e200\n1e60,3\n", "numbers.csv");
  const TableEncoder values = learn(parse_csv("x,y\n1,1\n2,2\n", "train.csv"));
  const auto of_words = [] {
    const CsvTable words = parse_csv("x,y\n1,Oslo\n2,Rome\n", "words.csv");
    const TableEncoder regression = learn(words, {.task = LearningTask::regression});
    regression.encode(words, std::vector<int64_t>{0});
  };
  EXPECT_THAT(error_of(of_words),
              AllOf(HasSubstr("words.csv:2:3: \"Oslo\" in column \"y\""), HasSubstr("data.task = \"classification\"")));
  EXPECT_THAT(error_of([&] { values.encode(numbers, std::vector<int64_t>{1}); }),
              AllOf(HasSubstr("numbers.csv:3:3"), HasSubstr("\"1e200\""), HasSubstr("float32")));
  EXPECT_THAT(error_of([&] { values.encode(numbers, std::vector<int64_t>{2}); }), HasSubstr("numbers.csv:4:1"));
  const auto encoded = learn(train, {.on_error = OnError::skip}).encode(test, rows_of(test));
  EXPECT_EQ(encoded.skipped, 3);
  EXPECT_EQ(encoded.data.size(0), 1);
  const auto first_of = [&](const std::string& text) {
    return [&, text] { learn(train).encode(parse_csv(text, "other.csv"), std::vector<int64_t>{0}); };
  };
  EXPECT_THAT(error_of(first_of("x,z,y\n1,2,a\n")), HasSubstr("column \"z\""));
  EXPECT_THAT(error_of(first_of("y,z\na,2\n")), HasSubstr("no such column"));
}

TEST(RowSplit, IsFixedAndTakesEveryRowOnce) {
  for (int64_t n : {1, 2, 7, 1000}) {
    const RowSplit split = split_rows(n, 0.2), again = split_rows(n, 0.2);
    EXPECT_EQ(split.test, again.test);
    EXPECT_EQ(static_cast<int64_t>(split.test.size()), std::llround(0.2 * static_cast<double>(n)));
    std::vector<int64_t> all = split.train;
    all.insert(all.end(), split.test.begin(), split.test.end());
    std::sort(all.begin(), all.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(all.at(static_cast<size_t>(i)), i);
  }
}

TEST(OpenCsv, SplitsOneFileOrTakesTwo) {
  TemporaryFolder folder;
  std::string text = "a;b;price\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + ";x;" + std::to_string(100 * i) + "\n";
  write_file(folder / "t.csv", text + "1;2\n");
  write_file(folder / "test.csv", "a;b;price\n5;y;1\n6;x;2\n");
  DataSpec spec{.name = "csv", .on_error = OnError::skip, .train_files = {folder / "t.csv"}};
  spec.table.separator = ';';
  spec.table.test_share = 0.25;
  spec.table.columns.target_unit = 100;
  TaskData one = open_data(spec);
  EXPECT_EQ(one.train->size(), 15);
  EXPECT_EQ(one.test->size(), 5);
  EXPECT_EQ(one.train->task(), LearningTask::regression);
  EXPECT_EQ(one.train->sample_shape(), Shape{2});
  EXPECT_EQ(one.train->target_shape(), Shape{1});
  EXPECT_THAT(one.source, AllOf(HasSubstr((folder / "t.csv").string()), HasSubstr("2 features, regression"),
                                HasSubstr("1 unreadable row left out")));
  spec.test_files = {folder / "test.csv"};
  spec.train_limit = 10;
  TaskData two = open_data(spec);
  EXPECT_THAT(two.source,
              AllOf(HasSubstr("10 of 20 training rows"), HasSubstr("1 test value that no training row has")));
  expect_near(two.test->get(std::vector<int64_t>{1}, {}).data, {(6 - 4.5) / std::sqrt(8.25), 1});
  spec.on_error = OnError::fail;
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("t.csv:22:4"));
  spec.table.columns.target_unit = 0;
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("data.target_unit: 0"));
  spec.table.columns = {.task = LearningTask::segmentation};
  spec.on_error = OnError::skip;
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("data.task: segmentation"));
  spec.test_files.clear();
  for (double share : {0.0, 1.0, -1.0, 1.5, 0.001}) {
    spec.table.test_share = share;
    EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("data.test_share"));
  }
  spec.train_files.clear();
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("data.train: missing"));
}

TEST(RealTables, CaliforniaHousing) {
  const auto folder = real_set("california-housing");
  if (!folder) GTEST_SKIP() << "no California housing: set TRIREME_DATA to the folder that holds california-housing/";
  TaskData task = open_data({.name = "california-housing", .data_dir = *folder});
  EXPECT_EQ(task.train->size(), 16512);
  EXPECT_EQ(task.test->size(), 4128);
  EXPECT_EQ(task.train->sample_shape(), Shape{14}) << "8 numbers, bedrooms missing, 5 kinds of place";
  EXPECT_EQ(task.train->task(), LearningTask::regression);
  const auto& train = dynamic_cast<const TensorDataset&>(*task.train);
  const auto& test = dynamic_cast<const TensorDataset&>(*task.test);
  const at::Tensor data = train.data().to(at::kDouble);
  for (int64_t column : {0, 1, 2, 3, 4, 6, 7, 8}) {
    EXPECT_NEAR(data.select(1, column).mean().item<double>(), 0, 1e-5);
    EXPECT_NEAR(data.select(1, column).std(false).item<double>(), 1, 1e-5);
  }
  const auto filled = [](const TensorDataset& set) { return set.data().select(1, 5).sum().item<double>(); };
  EXPECT_EQ(filled(train) + filled(test), 207);
  // The mean over all rows is 206855.816909 dollars (from awk).
  const at::Tensor prices = at::cat({train.target(), test.target()}).to(at::kDouble);
  EXPECT_NEAR(prices.mean().item<double>(), 2.06855816909, 1e-6);
  EXPECT_TRUE(at::equal(at::cat({train.data(), test.data()}).slice(1, 9, 14).sum(1), at::ones({20640})));
}

TEST(RealTables, Adult) {
  const auto folder = real_set("adult");
  if (!folder) GTEST_SKIP() << "no Adult: set TRIREME_DATA to the folder that holds adult/";
  TaskData task = open_data({.name = "adult", .data_dir = *folder});
  EXPECT_EQ(task.train->size(), 32561);
  EXPECT_EQ(task.test->size(), 16281);
  EXPECT_EQ(task.train->classes(), 2);
  // 7841 and 3846 incomes are above 50,000 (from grep -c).
  EXPECT_EQ(dynamic_cast<const TensorDataset&>(*task.train).target().sum().item<int64_t>(), 7841);
  EXPECT_EQ(dynamic_cast<const TensorDataset&>(*task.test).target().sum().item<int64_t>(), 3846);
  // 6 numbers, 99 values of 8 columns, and a mark for each of 3 columns with missing values.
  EXPECT_EQ(task.train->sample_shape(), Shape{108});
}

}  // namespace
}  // namespace trireme
