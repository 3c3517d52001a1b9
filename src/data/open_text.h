// Opens the sets of sentences by name. For open.cpp.
#pragma once

#include <filesystem>

#include "data/catalogue.h"
#include "data/open.h"

namespace trireme {

/// "sst2", "multi30k", "labelled-text", "parallel-text", "text": takes DataSpec::text.
bool takes_tokenizer(const std::string& name);

inline constexpr int64_t kDefaultSentence = 64;     ///< tokens of a sentence with a label, <s> and </s> included
inline constexpr int64_t kDefaultTranslation = 48;  ///< tokens of each of two sentences
inline constexpr int64_t kDefaultPieces = 8000;     ///< of a SentencePiece vocabulary

/// "sst2" or "multi30k" in the folder that was found. User errors: those of the readers.
TaskData open_text_set(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder);

/// "labelled-text": a file of lines "label<tab>sentence" for each split.
TaskData open_labelled_text(const DataSpec& spec);

/// "parallel-text": for each split a file in the source language and one in the target language.
TaskData open_parallel_text(const DataSpec& spec);

/// "text": a file of sentences for each split, read as one stream in which every line ends with </s>.
TaskData open_plain_text(const DataSpec& spec);

/// User errors about what the spec says of text: keys that the set does not take, a tokenizer that is not known.
void check_text_spec(const DataSpec& spec);

}  // namespace trireme
