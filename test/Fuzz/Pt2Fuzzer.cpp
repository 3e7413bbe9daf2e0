//===- Pt2Fuzzer.cpp - libFuzzer target for .pt2 archives -------------------===//

#include "plumb/Import/Pt2Archive.h"

using namespace plumb;

/// The first byte chooses what the rest is: a whole archive, or the JSON of its program, which random changes
/// to a compressed container would rarely reach.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string input(reinterpret_cast<const char *>(data) + 1, size - 1);
  Diagnostics diagnostics;
  if (data[0] % 2 == 0) {
    std::optional<json::Document> document =
        json::parse(std::make_shared<Source>("model.json", std::move(input)), diagnostics);
    if (document)
      pt2::parseExportedProgram(*document, diagnostics);
  } else if (std::unique_ptr<pt2::Pt2Archive> archive =
                 pt2::Pt2Archive::read("model.pt2", std::move(input), diagnostics)) {
    for (const pt2::Weight &weight : archive->weights())
      archive->bytes(weight.fqn, diagnostics);
  }
  diagnostics.str();
  return 0;
}
