// Shared by sets of texts: the keys of [data] that they accept, their tokenizers, and how streams of tokens, sentences
// with labels and pairs of sentences become a task's data.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/text/tokenizer.h"
#include "trireme/config.h"
#include "trireme/dataset.h"

namespace trireme {

inline constexpr int64_t kDefaultSentence = 64;     ///< tokens of a sentence with a label, <s> and </s> included
inline constexpr int64_t kDefaultTranslation = 48;  ///< tokens of each of two sentences
inline constexpr int64_t kDefaultPieces = 8000;     ///< size of a SentencePiece vocabulary

/// KnownSet::keys and KnownSet::read of sets whose sentences are cut by a tokenizer.
const std::vector<std::string>& sentence_keys();
void read_sentence_keys(const ConfigTable& table, const std::filesystem::path& folder, DataSpec& spec);

/// User errors in the spec's text settings: keys that the set does not accept; an unknown tokenizer.
void check_text_spec(const DataSpec& spec);
/// Throws a user error unless each split has `each` files. `next`: the advice in the message.
void check_file_numbers(const DataSpec& spec, size_t each, const char* next);

/// Creates the tokenizer that the spec names, else `standard`, and learns its vocabulary from the sentences.
std::shared_ptr<const Tokenizer> make_tokenizer(const DataSpec& spec, const std::vector<std::string>& sentences,
                                                const std::string& standard);

/// Cuts two streams of tokens into windows.
TaskData stream_task(const DataSpec& spec, std::vector<int32_t> train_tokens, std::vector<int32_t> test_tokens,
                     int64_t vocabulary, const std::string& title, const std::string& notes = "");

/// KnownSet::shape of texts under the spec's length of samples and vocabulary. `train`, `test`: tokens of a stream,
/// sentences, or pairs; 0: it depends on the files. `words`: different words of the training text, 0 likewise.
SetShape stream_shape(const DataSpec& spec, int64_t train, int64_t test, int64_t vocabulary);
SetShape sentences_shape(const DataSpec& spec, int64_t train, int64_t test, int64_t classes, int64_t words);
SetShape pairs_shape(const DataSpec& spec, int64_t train, int64_t test);

/// Opens a file of lines "label<tab>sentence" for each split. User errors: those of the reader; a single label.
TaskData open_sentences(const DataSpec& spec, const std::filesystem::path& train_file,
                        const std::filesystem::path& test_file, const std::string& title);

/// Opens, for each split, a file in the source language and one in the target language. User errors: those of the
/// reader.
TaskData open_pairs(const DataSpec& spec, const std::vector<std::filesystem::path>& train_files,
                    const std::vector<std::filesystem::path>& test_files, const std::string& title);

}  // namespace trireme
