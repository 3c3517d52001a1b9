#include "cli/data_command.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "data/catalogue.h"
#include "http_server.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DataCommand, AsksTheMirrorOfTheEnvironmentUnderTheNameOfTheSet) {
  ScopedVariable no_proxy("no_proxy", "127.0.0.1");
  LocalServer server([](const httplib::Request&, httplib::Response& response) { response.status = 404; });
  ScopedVariable mirror("TRIREME_MIRROR", server.url("/copies"));
  TemporaryFolder folder;
  std::ostringstream out;
  EXPECT_THAT(error_of([&] { data_get("mnist", folder.path(), out); }, Blame::run),
              AllOf(HasSubstr((folder / "mnist/train-images-idx3-ubyte.gz").string()), HasSubstr("HTTP 404")));
  EXPECT_THAT(server.paths(), ElementsAre("/copies/mnist/train-images-idx3-ubyte.gz"));
  EXPECT_THAT(out.str(), HasSubstr("train-images-idx3-ubyte.gz (9.45 MiB) from http://127.0.0.1"));
}

TEST(DataCommand, ListsSetsAndWhereTheyAre) {
  TemporaryFolder folder;
  write_file(folder / "cifar-10-batches-bin/test_batch.bin", "x");
  std::ostringstream out;
  EXPECT_EQ(data_list(out, folder.path()), 0);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("mnist"), HasSubstr("found in " + (folder / "cifar-10-batches-bin").string()),
                               HasSubstr("digits")));
}

TEST(DataCommand, ListsInColumns) {
  TemporaryFolder folder;
  std::ostringstream out;
  data_list(out, folder.path());
  std::istringstream lines(out.str());
  const size_t column = out.str().find("handwritten digits");  // description of the first set, MNIST
  EXPECT_GT(column, std::string("california-housing").size());
  int sets = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("searched:");) {
    const bool names_a_set = line.front() != ' ';
    sets += names_a_set ? 1 : 0;
    EXPECT_EQ(line.find_first_not_of(' ', names_a_set ? line.find(' ') : 0), column) << line;
  }
  const auto listed = [](const KnownSet& set) {
    return set.origin == DataOrigin::searched || set.origin == DataOrigin::generated;
  };
  EXPECT_EQ(sets, std::count_if(known_sets().begin(), known_sets().end(), listed));
}

TEST(DataCommand, ListsTheNamesWhenASetIsUnknown) {
  std::ostringstream out;
  EXPECT_THAT(error_of([&] { data_get("imagenet", {}, out); }),
              AllOf(HasSubstr("\"imagenet\""), HasSubstr("mnist, cifar10")));
  EXPECT_THAT(error_of([&] { data_get("csv", {}, out); }), HasSubstr("no set of this name can be downloaded"));
  EXPECT_EQ(data_get("digits", {}, out), 0);
}

TEST(Catalogue, EverySetDescribesItsFilesAndOpening) {
  std::set<std::string> names;
  for (const KnownSet& set : known_sets()) {
    EXPECT_TRUE(names.insert(set.name).second) << set.name;
    EXPECT_FALSE(set.title.empty() || set.description.empty() || set.open == nullptr) << set.name;
    EXPECT_EQ(set.origin == DataOrigin::searched, !set.parts.empty() && !set.folders.empty()) << set.name;
    EXPECT_TRUE(set.origin != DataOrigin::searched || !set.sources.empty() || !set.advice.empty()) << set.name;
    EXPECT_EQ(&known_set(set.name), &set);
  }
}

TEST(Catalogue, SourcesAreComplete) {
  for (const KnownSet& set : known_sets())
    for (const DownloadSource& source : set.sources) {
      EXPECT_EQ(source.sha256.size(), 64u) << source.file;
      EXPECT_EQ(source.sha256.find_first_not_of("0123456789abcdef"), std::string::npos);
      EXPECT_GT(source.size, 0);
      for (const std::string& url : source.urls) {
        EXPECT_TRUE(url.starts_with("https://"));
        EXPECT_TRUE(url.ends_with("/" + source.file)) << url;
      }
    }
}

}  // namespace
}  // namespace trireme
