#include "audit/verify.h"

#include "audit/chain.h"
#include "audit/ocsf.h"

namespace firebreak::audit {
namespace {

std::unexpected<Error> wrong(std::uint64_t n, const std::string& what) {
  return fail(Code::corrupt, Reason{"evidence_is_wrong"},
              "record " + std::to_string(n) + ": " + what);
}

}  // namespace

Result<> Verifier::expect(std::string_view checkpoint_line) {
  const auto read = read_checkpoint(checkpoint_line, public_key_);
  if (!read) return fail(Code::invalid, "a line of the checkpoints is none");
  if (!read->genuine)
    return wrong(read->checkpoint.n, "its checkpoint was not signed with this key");
  const auto [at, added] =
      kept_.try_emplace({read->checkpoint.tenant, read->checkpoint.n}, read->checkpoint);
  if (!added && at->second.hash != read->checkpoint.hash)
    return wrong(read->checkpoint.n, "two checkpoints disagree: the chain was forked");
  return {};
}

Result<> Verifier::line(std::string_view line) {
  if (signed_) return wrong(n_ + 1, "it stands behind the signature");
  if (manifest_) {
    if (!manifest_is_signed(manifest_line_, line, public_key_))
      return fail(Code::corrupt, Reason{"evidence_is_wrong"},
                  "the manifest was changed, or signed with another key");
    signed_ = true;
    return {};
  }
  if (line.starts_with(R"({"checkpoint":)")) return checkpoint(line);
  if (line.starts_with(R"({"manifest":)")) return manifest(line);
  return record(line);
}

Result<> Verifier::record(std::string_view line) {
  const std::uint64_t expected = n_ + 1;
  const auto read = read_line(line);
  if (!read && records_ == 0) return wrong(1, "the first line is no record");
  if (!read) return wrong(expected, "it was changed: the line is no record");
  const Record& it = read->record;
  if (records_ > 0 && it.n > expected)
    return wrong(expected, "it is missing or swapped: record " + std::to_string(it.n) + " follows");
  if (records_ > 0 && it.n < expected)
    return wrong(expected, "record " + std::to_string(it.n) + " stands in its place");
  if (records_ > 0 && it.tenant != tenant_) return wrong(it.n, "it is another tenant's");
  if (records_ > 0 && it.at < at_) return wrong(it.n, "its time is before the one in front of it");
  again_.clear();
  append_line(again_, it, read->hash);
  if (again_ != line) return wrong(it.n, "it was changed: the event does not follow from it");
  if (records_ == 0) {
    first_ = it.n;
    first_canonical_ = read->canonical;
    first_hash_ = read->hash;
    tenant_ = it.tenant;
  }
  const bool begins = it.n == 1;
  if ((records_ > 0 || begins) &&
      next_hash(begins ? first_hash() : hash_, read->canonical) != read->hash)
    return wrong(it.n, "it was changed: its hash does not follow");
  n_ = it.n;
  hash_ = read->hash;
  at_ = it.at;
  ++records_;
  return kept_.empty() ? Result<>() : compare_kept();
}

Result<> Verifier::compare_kept() {
  const auto kept = kept_.find({tenant_, n_});
  if (kept == kept_.end()) return {};
  if (kept->second.hash != hash_)
    return wrong(n_, "a checkpoint that was kept elsewhere has another hash: the chain was forked");
  kept_agrees_ = true;
  return {};
}

Result<> Verifier::checkpoint(std::string_view line) {
  const auto read = read_checkpoint(line, public_key_);
  if (!read) return wrong(n_, "its checkpoint cannot be read");
  if (!read->genuine) return wrong(n_, "its checkpoint was not signed with this key");
  const Checkpoint& it = read->checkpoint;
  if (records_ == 0 || it.n != n_ || it.hash != hash_ || it.tenant != tenant_)
    return wrong(it.n, "its checkpoint has another hash: the chain was forked");
  ++checkpoints_;
  return {};
}

Result<> Verifier::manifest(std::string_view line) {
  const auto read = read_manifest(line);
  if (!read) return fail(Code::corrupt, Reason{"evidence_is_wrong"}, "the manifest cannot be read");
  manifest_ = *read;
  manifest_line_ = line;
  return {};
}

Result<Verdict> Verifier::finish() {
  if (!manifest_ || !signed_)
    return wrong(n_ + 1, "the stream was cut off: it has no signed manifest");
  const Manifest& it = *manifest_;
  if (records_ > 0 && it.tenant != tenant_) return wrong(first_, "it is another tenant's");
  if (records_ > 0 && first_ != it.first) return wrong(it.first, "it is missing");
  if (it.last > n_ && it.last >= it.first)
    return wrong(records_ == 0 ? it.first : n_ + 1, "it is missing: the end was cut off");
  if (n_ > it.last) return wrong(it.last + 1, "the manifest does not know it");
  if (records_ > 0 && next_hash(it.previous, first_canonical_) != first_hash_)
    return wrong(first_, "it was changed: its hash does not follow");
  if (records_ > 0 && hash_ != it.hash) return wrong(n_, "the manifest has another hash");
  // Whoever asks for the end of a chain must get all that was once attested.
  for (const auto& [at, kept] : kept_) {
    if (at.first == it.tenant && at.second > it.last && kept.at <= it.at)
      return wrong(it.last + 1,
                   "it is missing: a checkpoint that was kept elsewhere attests record " +
                       std::to_string(at.second));
  }
  return Verdict{.manifest = it,
                 .records = records_,
                 .checkpoints = checkpoints_,
                 .anchored = kept_agrees_ || it.anchored >= it.first};
}

}  // namespace firebreak::audit
