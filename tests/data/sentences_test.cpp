#include <ATen/ATen.h>

#include <cstring>

#include "data/open.h"
#include "data/text/labelled_text.h"
#include "data/text/parallel_text.h"
#include "data/text/repadded_set.h"
#include "data/text/split_words.h"
#include "data/text/text_lines.h"
#include "data/text/utf8.h"
#include "real_data.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Sentences = std::vector<std::string>;

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("a\xc3\xbc\xe6\xbc\xa2\xf0\x9f\x98\x80"), std::string::npos);
  for (const std::string bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                "\xf5\x80\x80\x80", "\xc3", "\xe6\xbc", "\xc3x", "\xff"})
    EXPECT_EQ(find_invalid_utf8("ab" + bad), 2u) << bad;
}

TEST(Utf8, EncodedTextDecodesToTheSameCodePoints) {
  std::string text;
  const std::vector<char32_t> points{0x24, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
  for (const char32_t c : points) append_utf8(text, c);
  EXPECT_EQ(text.size(), 1u + 1 + 2 + 2 + 3 + 3 + 4 + 4);
  size_t at = 0;
  for (const char32_t c : points) EXPECT_EQ(next_code_point(text, at), c);
  EXPECT_EQ(to_lower("ÄÖÜ Straße ŁÓDŹ ΑΘΉΝΑ МОСКВА"), "äöü straße łódź αθήνα москва");
}

TEST(TextLines, EndAtLineFeedsOnly) {
  TemporaryFolder folder;
  write_gzip(folder / "t.gz",
             "one\r\n\ntwo\xe2\x80\xa8still two\nba\xff"
             "d");
  const auto lines = read_lines(folder / "t.gz", "advice");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].text, "");
  EXPECT_EQ(lines[2].text, "two\xe2\x80\xa8still two");
  EXPECT_THAT(
      error_of([&] { check_utf8(lines[3], "t.gz", "advice"); }),
      AllOf(HasSubstr("t.gz:4:3"), HasSubstr("byte 0xff at position 24"), HasSubstr("not UTF-8"), HasSubstr("advice")));
  write_file(folder / "empty", "");
  EXPECT_THAT(error_of([&] { read_lines(folder / "empty", "advice"); }), HasSubstr("no lines"));
}

TEST(TextLines, AByteOrderMarkIsNoText) {
  const TemporaryFolder folder;
  write_file(folder / "marked", "\xEF\xBB\xBFgood\tday\nbad \xFF\n\xEF\xBB\xBFlater\n");
  const auto lines = read_lines(folder / "marked", "advice");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "good\tday");
  EXPECT_EQ(lines[0].position, 3);
  EXPECT_EQ(lines[2].text, "\xEF\xBB\xBFlater") << "only the first one is none";
  EXPECT_THAT(error_of([&] { check_utf8(lines[1], folder / "marked", "advice"); }),
              HasSubstr(":2:5: byte 0xff at position 16"));
  write_file(folder / "nothing", "\xEF\xBB\xBF");
  EXPECT_THAT(error_of([&] { read_lines(folder / "nothing", "advice"); }), HasSubstr("no lines"));
}

TEST(SplitWords, TakesPunctuationApart) {
  EXPECT_THAT(split_13a("Hello, world! It's 3.5% of 1,000 - a 7-day &quot;test&quot;..."),
              ElementsAre("Hello", ",", "world", "!", "It's", "3.5", "%", "of", "1,000", "-", "a", "7", "-", "day",
                          "\"", "test", "\"", ".", ".", "."));
  EXPECT_TRUE(split_13a("  ").empty());
}

TEST(CountedVocabulary, NumbersTheMostFrequentFirst) {
  const Sentences text{"b a c", "a b A", "d a"};
  const auto words = count_vocabulary(text, {});
  EXPECT_EQ(words->size(), 9);  // a is 4, b is 5, then A, c, d in byte order
  EXPECT_THAT(words->encode("a b A c d e"), ElementsAre(4, 5, 6, 7, 8, kUnknownToken));
  EXPECT_EQ(words->decode(std::vector<int64_t>{2, 5, 4, 1, 0, 0}), "b a <unk>");
  EXPECT_EQ(words->decode(std::vector<int64_t>{5, 3, 4}), "b") << "what comes after the end is not decoded";
  EXPECT_THAT(count_vocabulary(text, {.max_size = 6, .lower = true})->encode("A B c"),
              ElementsAre(4, 5, kUnknownToken));
  EXPECT_THAT(count_vocabulary(text, {.min_count = 2})->encode("a b c"), ElementsAre(4, 5, kUnknownToken));
  EXPECT_THAT(count_vocabulary(Sentences{"so, so"}, {.unit = TokenUnit::punctuated_word})->encode("so,"),
              ElementsAre(4, 5));
  EXPECT_THAT(error_of([&] { words->decode(std::vector<int64_t>{9}); }),
              AllOf(HasSubstr("token: 9"), HasSubstr("0 to 8")));
  EXPECT_THAT(error_of([&] { count_vocabulary(text, {.max_size = 4}); }), HasSubstr("data.vocabulary: 4"));
  EXPECT_THAT(error_of([&] { count_vocabulary(text, {.min_count = 9}); }), HasSubstr("no tokens"));
}

TEST(CountedVocabulary, HoldsCharacters) {
  const auto characters = count_vocabulary(Sentences{"ünü", "n"}, {.unit = TokenUnit::character});
  EXPECT_EQ(characters->size(), 6);
  const auto ids = characters->encode("ün?");
  EXPECT_THAT(ids, ElementsAre(5, 4, kUnknownToken)) << "equally frequent: n before ü in bytes";
  EXPECT_EQ(characters->decode(std::vector<int64_t>{5, 4, 5}), "ünü");
}

/// A text with enough structure for a small vocabulary of pieces.
Sentences piece_text() {
  Sentences text;
  for (int i = 0; i < 200; ++i)
    text.push_back("the " + Sentences{"old", "young", "small"}[size_t(i) % 3] + " man " +
                   Sentences{"walks", "walked", "is walking"}[size_t(i) / 3 % 3] + " number " + std::to_string(i));
  return text;
}

TEST(SentencePiece, TrainsTheSameModelAgainAndKeepsIt) {
  if (!sentencepiece_available()) GTEST_SKIP() << "this build has no SentencePiece";
  TemporaryFolder one, two;
  const Sentences text = piece_text();
  const auto first = train_sentencepiece(text, {.size = 50}, one.path());
  const auto second = train_sentencepiece(text, {.size = 50}, two.path());
  EXPECT_EQ(first->size(), 50);
  const std::filesystem::path file = std::filesystem::directory_iterator(one.path())->path();
  EXPECT_EQ(read_text(file), read_text(two.path() / file.filename()));
  for (const std::string& sentence : {text[0], std::string("the young walker"), std::string("")}) {
    const auto ids = first->encode(sentence);
    EXPECT_EQ(first->decode(std::vector<int64_t>(ids.begin(), ids.end())), sentence);
    EXPECT_EQ(ids, second->encode(sentence));
  }
  EXPECT_THAT(first->encode("漢"), ::testing::Contains(kUnknownToken));
  write_file(file, read_text(two.path() / file.filename()).substr(0, 100));
  EXPECT_THAT(error_of([&] { train_sentencepiece(text, {.size = 50}, one.path()); }), HasSubstr(file.string()))
      << "it was read from the cache";
  train_sentencepiece(text, {.size = 45}, one.path());
  train_sentencepiece(text, {.size = 50, .kind = "bpe"}, one.path());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(one.path()), {}), 3);
}

/// The library's own limit is 4192 bytes: a letter of a longer line would be unknown.
TEST(SentencePiece, LearnsFromLinesOfAnyLength) {
  if (!sentencepiece_available()) GTEST_SKIP() << "this build has no SentencePiece";
  TemporaryFolder folder;
  Sentences text = piece_text();
  std::string line;
  while (line.size() < 20000) line += "the old man walks ζ ";
  text.push_back(line);
  for (const char* kind : {"unigram", "bpe"})
    EXPECT_THAT(train_sentencepiece(text, {.size = 60, .kind = kind}, folder.path())->encode("ζ"),
                ::testing::Not(::testing::Contains(kUnknownToken)))
        << kind;
}

TEST(SentencePiece, SaysWhyAModelCannotBe) {
  if (!sentencepiece_available()) GTEST_SKIP() << "this build has no SentencePiece";
  TemporaryFolder folder;
  EXPECT_THAT(
      error_of([&] { train_sentencepiece(piece_text(), {.size = 100000}, folder.path()); }),
      ContainsRegex("^data.vocabulary: 100000 SentencePiece pieces \\(unigram\\): the training sentences allow at most "
                    "[0-9]+; set data.vocabulary = [0-9]+ or less, or use more sentences$"));
  EXPECT_EQ(error_of([&] {
              train_sentencepiece(Sentences{"a b", "b c"}, {.size = 5, .kind = "bpe"}, folder.path());
            }),
            "data.vocabulary: 5 SentencePiece pieces (bpe): the training sentences' characters and the special pieces "
            "are 8; set "
            "data.vocabulary = 8 or more");  // a, b, c and the blank
  EXPECT_THAT(error_of([&] { train_sentencepiece(piece_text(), {.size = 4}, folder.path()); }),
              HasSubstr("data.vocabulary: 4: 4 ids"));
  write_file(folder / "a.model", "no model");
  EXPECT_THAT(error_of([&] { load_sentencepiece(folder / "a.model"); }), HasSubstr("not a SentencePiece model"));
  EXPECT_THAT(error_of([&] { load_sentencepiece(folder / "b.model"); }), HasSubstr("no such file"));
}

std::string protobuf_field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

/// One piece of a model in the format of sentencepiece_model.proto: text, score and type (1 normal, 2 unknown, 3
/// control).
std::string piece(const std::string& text, float score, char type) {
  std::string bytes(sizeof score, '\0');
  std::memcpy(bytes.data(), &score, sizeof score);
  return protobuf_field(1, protobuf_field(1, text) + std::string("\x15") + bytes + std::string{'\x18', type});
}

TEST(SentencePiece, GivesTheSpecialPiecesOfAModelOurIds) {
  if (!sentencepiece_available()) GTEST_SKIP() << "this build has no SentencePiece";
  TemporaryFolder folder;  // a model with the library's own ids: <unk> 0, <s> 1, </s> 2 and no <pad>
  write_file(folder / "a.model", piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) +
                                     piece("\xe2\x96\x81", -1, 1) + piece("a", -2, 1) + piece("b", -3, 1));
  const auto tokenizer = load_sentencepiece(folder / "a.model");
  EXPECT_EQ(tokenizer->size(), 4 + 3);
  EXPECT_THAT(tokenizer->encode("ab b"), ElementsAre(4, 5, 6, 4, 6));
  EXPECT_THAT(tokenizer->encode("c"), ElementsAre(4, kUnknownToken));
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{2, 4, 6, 4, 5, 0, 3, 5}), "b a");
  write_file(folder / "b.model", piece("a", -2, 1));
  EXPECT_THAT(error_of([&] { load_sentencepiece(folder / "b.model"); }), HasSubstr("b.model"));
}

TEST(LabelledText, ReadsLabelsAndSentences) {
  TemporaryFolder folder;
  write_file(folder / "t.tsv", "1\tgood \"film\"\n\n0\tbad\r\n");
  const LabelledText text = read_labelled_text(folder / "t.tsv");
  EXPECT_THAT(text.labels, ElementsAre("1", "0"));
  EXPECT_THAT(text.sentences, ElementsAre("good \"film\"", "bad"));
  EXPECT_THAT(text.lines, ElementsAre(1, 3));
}

TEST(LabelledText, LabelsHaveNoBlanksAroundThem) {
  const TemporaryFolder folder;
  write_file(folder / "t.tsv", "\xEF\xBB\xBFgood \ta\n good\tb\n very bad  \t c\n");
  const LabelledText text = read_labelled_text(folder / "t.tsv");
  EXPECT_THAT(text.labels, ElementsAre("good", "good", "very bad"));
  write_file(folder / "blank.tsv", "  \ta\n");
  EXPECT_THAT(error_of([&] { read_labelled_text(folder / "blank.tsv"); }), HasSubstr("no label"));
}

TEST(LabelledText, NamesOrSkipsLinesThatAreNone) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.tsv";
  const auto error_in = [&](const std::string& bytes) {
    write_file(file, bytes);
    return error_of([&] { read_labelled_text(file); });
  };
  EXPECT_THAT(error_in("1\ta\nnothing\n"), AllOf(HasSubstr("t.tsv:2:8"), HasSubstr("no tab")));
  EXPECT_THAT(error_in("\ta\n"), AllOf(HasSubstr("t.tsv:1:1"), HasSubstr("no label")));
  EXPECT_THAT(error_in("1\ta\tb\n"), AllOf(HasSubstr("t.tsv:1:4"), HasSubstr("second tab")));
  EXPECT_THAT(error_in("1\t \n"), AllOf(HasSubstr("t.tsv:1:3"), HasSubstr("no sentence")));
  EXPECT_THAT(error_in("1\ta\n0\tb\xc3\n"), AllOf(HasSubstr("t.tsv:2:4"), HasSubstr("byte 0xc3 at position 7")));
  write_file(file, "1\ta\nnothing\n0\tb\xc3\n0\tc\n");
  const LabelledText text = read_labelled_text(file, OnError::skip);
  EXPECT_EQ(text.skipped, 2);
  EXPECT_THAT(text.sentences, ElementsAre("a", "c"));
  write_file(file, "nothing\n");
  EXPECT_THAT(error_of([&] { read_labelled_text(file, OnError::skip); }), HasSubstr("no lines"));
}

TEST(SentenceSet, FramesCutsAndPads) {
  const LabelledText text{.labels = {"pos", "neg", "odd"}, .sentences = {"a b", "b a b a", "a"}, .lines = {1, 2, 4}};
  const std::shared_ptr<const Tokenizer> words = count_vocabulary(text.sentences, {});
  const SentenceSet set(text, {"neg", "pos"}, words, 5, "t.tsv", OnError::skip);
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.skipped(), 1);
  EXPECT_EQ(set.cut(), 1);
  EXPECT_EQ(set.vocabulary(), 6);
  EXPECT_EQ(set.task(), LearningTask::classification);
  EXPECT_THAT(set.lengths(), ElementsAre(4, 5));
  const Samples samples = set.get(std::vector<int64_t>{1, 0}, {});
  EXPECT_TRUE(at::equal(samples.data, at::tensor({2, 5, 4, 5, 3, 2, 4, 5, 3, 0}, at::kLong).view({2, 5})));
  EXPECT_TRUE(at::equal(samples.target, at::tensor({0, 1}, at::kLong)));
  EXPECT_THAT(error_of([&] {
                SentenceSet(text, {"neg", "pos"}, words, 5, "t.tsv");
              }),
              AllOf(HasSubstr("t.tsv:4"), HasSubstr("label \"odd\"")));
  EXPECT_THAT(error_of([&] { SentenceSet(text, {"neg", "pos"}, words, 2, "t.tsv"); }), HasSubstr("data.sequence: 2"));
  error_of([&] { set.get(std::vector<int64_t>{2}, {}); }, Blame::run);
}

TEST(ParallelText, PairsLinesOfTwoFiles) {
  TemporaryFolder folder;
  write_gzip(folder / "a.en.gz", "one\ntwo\n\nfour\n");
  write_file(folder / "a.de", "eins\nzw\xff\ndrei\nvier\n");
  write_file(folder / "b.de", "eins\n");
  EXPECT_THAT(error_of([&] { read_parallel_text(folder / "a.en.gz", folder / "b.de"); }),
              AllOf(HasSubstr("b.de: 1 line:"), HasSubstr("has 4")));
  EXPECT_THAT(error_of([&] { read_parallel_text(folder / "a.en.gz", folder / "a.de"); }), HasSubstr("a.de:2:3"));
  const ParallelText text = read_parallel_text(folder / "a.en.gz", folder / "a.de", OnError::skip);
  EXPECT_THAT(text.source, ElementsAre("one", "four"));
  EXPECT_THAT(text.target, ElementsAre("eins", "vier"));
  EXPECT_EQ(text.skipped, 2);
}

TEST(TranslationSet, LaysOutSourceDecoderInputAndTarget) {
  const ParallelText text{.source = {"a b", "b b b a"}, .target = {"x", "y x y x"}};
  const std::shared_ptr<const Tokenizer> source = count_vocabulary(text.source, {}),
                                         target = count_vocabulary(text.target, {});
  // Numbers of the words: b 4, a 5; x 4, y 5.
  TranslationSet set(text, source, target, 3);
  EXPECT_EQ(set.task(), LearningTask::translation);
  EXPECT_EQ(set.sample_shape(), Shape{6});
  EXPECT_EQ(set.target_shape(), Shape{3});
  EXPECT_EQ(set.cut(), 1);
  EXPECT_THAT(set.lengths(), ElementsAre(3 + 2, 3 + 3));
  const Samples samples = set.get(std::vector<int64_t>{0, 1}, {});
  EXPECT_TRUE(at::equal(samples.data, at::tensor({5, 4, 3, 2, 4, 0, 4, 4, 4, 2, 5, 4}, at::kLong).view({2, 6})));
  EXPECT_TRUE(at::equal(samples.target, at::tensor({4, 3, 0, 5, 4, 5}, at::kLong).view({2, 3})))
      << "a cut sentence has no end to learn";
  EXPECT_EQ(set.source_text(1), "b b b a");
  EXPECT_EQ(set.reference(1), "y x y x");
  EXPECT_EQ(set.decode(std::vector<int64_t>{5, 4, 3, 5}), "y x");
  // The decoder's input is its target moved on by one token.
  const at::Tensor given = samples.data.narrow(1, 3, 3), wanted = samples.target;
  EXPECT_TRUE(at::equal(given.narrow(1, 1, 2).masked_fill(wanted.narrow(1, 0, 2) == kEndToken, kEndToken),
                        wanted.narrow(1, 0, 2)));
  set.keep_first(1);
  EXPECT_EQ(set.size(), 1);
  EXPECT_THAT(error_of([&] { TranslationSet(text, source, target, 1); }), HasSubstr("data.sequence: 1"));
}

TEST(RepaddedSet, HoldsTheSameSamplesWithLessPadding) {
  const LabelledText text{.labels = {"n", "p", "p"}, .sentences = {"a b", "b", "a a a a"}, .lines = {1, 2, 3}};
  const std::shared_ptr<const Tokenizer> words = count_vocabulary(text.sentences, {});
  const auto whole = std::make_shared<SentenceSet>(text, std::vector<std::string>{"n", "p"}, words, 9, "t.tsv");
  const std::vector<int64_t> short_ones{1, 0}, all{2, 1, 0};
  EXPECT_EQ(parts_for(*whole, short_ones, 1), (PartLengths{4, 0}));
  EXPECT_EQ(parts_for(*whole, short_ones, 3), (PartLengths{6, 0}));
  EXPECT_EQ(parts_for(*whole, all, 8), (PartLengths{8, 0}));
  EXPECT_EQ(parts_for(*whole, all, 5), (PartLengths{9, 0})) << "no longer than all samples are";
  const RepaddedSet less(whole, {4, 0});
  EXPECT_EQ(less.size(), 3);
  EXPECT_EQ(less.sample_shape(), Shape{4});
  EXPECT_EQ(less.target_shape(), Shape{});
  EXPECT_EQ(less.vocabulary(), whole->vocabulary());
  const Samples cut = less.get(short_ones, {}), padded = whole->get(short_ones, {});
  EXPECT_TRUE(at::equal(cut.data, padded.data.narrow(1, 0, 4)));
  EXPECT_TRUE(padded.data.narrow(1, 4, 5).eq(kPadding).all().item<bool>());
  EXPECT_TRUE(at::equal(cut.target, padded.target));
  error_of([&] { less.get(all, {}); }, Blame::run);
  error_of([&] { RepaddedSet(whole, {10, 0}); }, Blame::run);
}

TEST(RepaddedSet, CutsBothPartsOfATranslation) {
  const ParallelText text{.source = {"a b", "b b b a"}, .target = {"x", "y x y x x"}};
  const std::shared_ptr<const Tokenizer> source = count_vocabulary(text.source, {}),
                                         target = count_vocabulary(text.target, {});
  const auto whole = std::make_shared<TranslationSet>(text, source, target, 8);
  EXPECT_EQ(whole->parts(0), (PartLengths{3, 2}));
  EXPECT_EQ(whole->parts(1), (PartLengths{5, 6}));
  const std::vector<int64_t> first{0};
  EXPECT_EQ(parts_for(*whole, first, 2), (PartLengths{4, 2}));
  const RepaddedSet less(whole, {4, 2});
  EXPECT_EQ(less.sample_shape(), Shape{6});
  EXPECT_EQ(less.target_shape(), Shape{2});
  EXPECT_EQ(less.task(), LearningTask::translation);
  const Samples cut = less.get(first, {}), padded = whole->get(first, {});
  EXPECT_TRUE(at::equal(cut.data, at::cat({padded.data.narrow(1, 0, 4), padded.data.narrow(1, 8, 2)}, 1)));
  EXPECT_TRUE(at::equal(cut.target, padded.target.narrow(1, 0, 2)));
}

class OpenSentences : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  ScopedVariable cache_{"TRIREME_CACHE", (folder_ / "cache").string()};
};

TEST_F(OpenSentences, LabelledTextTakesTokenizers) {
  write_file(folder_ / "train.tsv", "good\tfine film\nbad\tdull film\n");
  write_file(folder_ / "test.tsv", "bad\tdull dull dull dull\n");
  DataSpec spec{.name = "labelled-text",
                .sequence = 5,
                .train_files = {folder_ / "train.tsv"},
                .test_files = {folder_ / "test.tsv"}};
  const TaskData words = open_data(spec);
  EXPECT_THAT(words.source,
              AllOf(HasSubstr("7 different tokens, sentences of 5, 2 classes"), HasSubstr("1 longer sentences cut")));
  EXPECT_TRUE(at::equal(words.test->get(std::vector<int64_t>{0}, {}).target, at::tensor({0}, at::kLong)))
      << "labels in byte order";
  spec.text.tokenizer = "character";
  EXPECT_EQ(open_data(spec).train->vocabulary(), 4 + 9);  // " defilmnu"
  spec.text.tokenizer = "words";
  EXPECT_THAT(error_of([&] { open_data(spec); }),
              AllOf(HasSubstr("data.tokenizer: \"words\""), HasSubstr("word, 13a, character")));
  spec.text = {.tokenizer = "word", .model = folder_ / "a.model"};
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("data.model"));
  EXPECT_THAT(error_of([&] { open_data({.name = "digits", .text = {.tokenizer = "word"}}); }),
              HasSubstr("digits has no vocabulary"));
  EXPECT_THAT(error_of([&] { open_data({.name = "digits", .train_files = {"a"}}); }),
              HasSubstr("digits has its own files"));
  spec.text = {};
  spec.test_files.clear();
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("1 training and 0 test files"));
}

TEST_F(OpenSentences, ParallelTextHasOneVocabularyOrTwo) {
  write_file(folder_ / "en", "a b c\n");
  write_file(folder_ / "de", "x y a a\n");
  const std::vector<std::filesystem::path> files{folder_ / "en", folder_ / "de"};
  DataSpec spec{.name = "parallel-text", .sequence = 6, .train_files = files, .test_files = files};
  spec.text.tokenizer = "word";
  const TaskData joint = open_data(spec);
  EXPECT_EQ(joint.train->classes(), 4 + 5);
  EXPECT_EQ(joint.train->vocabulary(), 4 + 5);
  spec.text.joint = false;
  const TaskData separate = open_data(spec);
  EXPECT_THAT(separate.source, HasSubstr("7 and 7 different tokens"));
}

/// A model that learned its sentences by heart has BLEU 100: its tokens and the reference are in the same case.
TEST_F(OpenSentences, InLowerCaseReferencesAreToo) {
  write_file(folder_ / "en", "A Dog runs\nTHE Dog sleeps\n");
  write_file(folder_ / "de", "Ein HUND läuft\nDer Hund SCHLÄFT Straße\n");
  const std::vector<std::filesystem::path> files{folder_ / "en", folder_ / "de"};
  DataSpec spec{.name = "parallel-text", .sequence = 40, .train_files = files, .test_files = files};
  spec.text.lower = true;
  std::vector<std::string> tokenizers{"word", "13a", "character"};
  if (sentencepiece_available()) tokenizers.emplace_back("sentencepiece-bpe");
  for (const std::string& tokenizer : tokenizers) {
    spec.text.tokenizer = tokenizer;
    spec.text.vocabulary = tokenizer == "sentencepiece-bpe" ? 40 : 0;
    const TaskData task = open_data(spec);
    const auto& test = dynamic_cast<const TranslationSet&>(*task.test);
    EXPECT_EQ(test.source_text(1), "the dog sleeps") << tokenizer;
    EXPECT_EQ(test.reference(1), "der hund schläft straße") << tokenizer << ": case folding would write strasse";
    const at::Tensor target = test.get(std::vector<int64_t>{1}, {}).target;
    EXPECT_EQ(test.decode({target.data_ptr<int64_t>(), static_cast<size_t>(target.numel())}), test.reference(1))
        << tokenizer;
  }
}

TEST_F(OpenSentences, KeysThatATokenizerDoesNotUseAreRefused) {
  for (const char* name : {"labelled-text", "parallel-text", "text"}) {
    DataSpec spec{.name = name, .train_files = {"a"}, .test_files = {"b"}};
    spec.text.tokenizer = "sentencepiece";
    spec.text.min_count = 2;
    EXPECT_THAT(error_of([&] { open_data(spec); }),
                AllOf(HasSubstr("data.min_count: 2"), HasSubstr("SentencePiece"), HasSubstr("leave it out")));
    spec.text = {.model = "a.model"};
    spec.text.lower = true;
    EXPECT_THAT(error_of([&] { open_data(spec); }), AllOf(HasSubstr("data.lower"), HasSubstr("a.model is used")));
    spec.text = {.vocabulary = 50, .model = "a.model"};
    EXPECT_THAT(error_of([&] { open_data(spec); }), AllOf(HasSubstr("data.vocabulary"), HasSubstr("a.model is used")));
    spec.text = {.min_count = 3, .model = "a.model"};
    EXPECT_THAT(error_of([&] { open_data(spec); }), AllOf(HasSubstr("data.min_count"), HasSubstr("a.model is used")));
  }
  DataSpec pairs{.name = "parallel-text", .train_files = {"a", "b"}, .test_files = {"a", "b"}};
  pairs.text.min_count = 2;
  EXPECT_THAT(error_of([&] { open_data(pairs); }), HasSubstr("SentencePiece")) << "it is the usual one for pairs";
}

TEST_F(OpenSentences, PlainTextIsAStream) {
  write_file(folder_ / "train.txt", "a b\n\nb c\n");
  write_file(folder_ / "test.txt", "b d a\n");
  const DataSpec spec{
      .name = "text", .sequence = 2, .train_files = {folder_ / "train.txt"}, .test_files = {folder_ / "test.txt"}};
  const TaskData task = open_data(spec);
  EXPECT_TRUE(task.train->is_stream());
  // With b 4, a 5, c 6 the text is: a b </s> b c </s>.
  EXPECT_TRUE(at::equal(task.train->get(std::vector<int64_t>{0, 1}, {}).data,
                        at::tensor({5, 4, 3, 4}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(task.test->get(std::vector<int64_t>{0}, {}).target,
                        at::tensor({kUnknownToken, 5}, at::kLong).view({1, 2})));
  EXPECT_EQ(task.train->classes(), 7);
  write_file(folder_ / "train.txt", "\n \n\t\n");
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("train.txt: no words: all its lines are empty"));
  write_gzip(folder_ / "train.txt", "a b c d\nb c d e f\n");
  std::filesystem::resize_file(folder_ / "train.txt", std::filesystem::file_size(folder_ / "train.txt") - 5);
  EXPECT_THAT(error_of([&] { open_data(spec); }),
              AllOf(HasSubstr("train.txt: corrupt gzip data"), HasSubstr("cut short: get it again")));
}

TEST_F(OpenSentences, RealSst2) {
  const auto real = real_set("sst2");
  if (!real) GTEST_SKIP() << "no SST-2: set TRIREME_DATA to the folder that holds sst2/";
  const TaskData task = open_data({.name = "sst2", .data_dir = *real});
  EXPECT_EQ(task.train->size(), 6920);
  EXPECT_EQ(task.test->size(), 1821);
  EXPECT_EQ(task.train->classes(), 2);
  EXPECT_EQ(task.train->sample_shape(), Shape{64});
  // cut -f2 train.tsv | tr ' ' '\n' | sort -u | grep -c .
  EXPECT_EQ(task.train->vocabulary(), 14831 + 4);
  int64_t positive = 0;
  for (int64_t i = 0; i < task.test->size(); ++i)
    positive += task.test->get(std::vector<int64_t>{i}, {}).target.item<int64_t>();
  EXPECT_EQ(positive, 909);  // grep -c '^1' test.tsv
}

TEST_F(OpenSentences, RealMulti30k) {
  const auto real = real_set("multi30k");
  if (!real) GTEST_SKIP() << "no Multi30k: set TRIREME_DATA to the folder that holds multi30k/";
  DataSpec spec{.name = "multi30k", .data_dir = *real};
  spec.text.tokenizer = "13a";
  const TaskData task = open_data(spec);
  EXPECT_EQ(task.train->size(), 29000);
  EXPECT_EQ(task.test->size(), 1000);
  const auto& test = dynamic_cast<const TranslationSet&>(*task.test);
  EXPECT_EQ(test.source_text(1), "A Boston Terrier is running on lush green grass in front of a white fence.");
  EXPECT_EQ(test.reference(1), "Ein Boston Terrier läuft über saftig-grünes Gras vor einem weißen Zaun.");
  const at::Tensor target = test.get(std::vector<int64_t>{1}, {}).target;
  EXPECT_EQ(test.decode({target.data_ptr<int64_t>(), static_cast<size_t>(target.numel())}),
            "Ein Boston Terrier läuft über <unk> Gras vor einem weißen Zaun .")
      << "saftig-grünes is in no training sentence";
}

}  // namespace
}  // namespace trireme
