// Two certificates of CAs that nobody has. Test code only.
#pragma once

namespace firebreak::image {

inline constexpr const char* kOneCertificate =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBeTCCAR+gAwIBAgIUItur0b9BEeKcQ3IRtrLg3ik9NEMwCgYIKoZIzj0EAwIw\n"
    "ETEPMA0GA1UEAwwGb25lIENBMCAXDTI2MTExODAwNDUzN1oYDzIxMjYxMDI1MDA0\n"
    "NTM3WjARMQ8wDQYDVQQDDAZvbmUgQ0EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n"
    "AATLAzIf3/Ln/wpOwRBdu184PLYnPdvrqexUgNTLRsaN4s9LhGI2bxuYz+yNOKdd\n"
    "99EzpVcofV33TShtn7QwO34mo1MwUTAdBgNVHQ4EFgQUA5BSbtNnAS1aSKmdqNX/\n"
    "kfxg1mkwHwYDVR0jBBgwFoAUA5BSbtNnAS1aSKmdqNX/kfxg1mkwDwYDVR0TAQH/\n"
    "BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAs+EHuMi2ovxgwKyF6mz0GxwRkR4e4\n"
    "lfniQAijrWCyewIhAO0ugy7iDBjk4GrzUA08MqPCVNIcPxv9+yIAdYtGH/fM\n"
    "-----END CERTIFICATE-----\n";
inline constexpr const char* kOneSubject = "63b03265";  // openssl x509 -subject_hash

inline constexpr const char* kOtherCertificate =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBfDCCASOgAwIBAgIUaG/crE6VYBEpUQ1CG1KB/6dAnMQwCgYIKoZIzj0EAwIw\n"
    "EzERMA8GA1UEAwwIb3RoZXIgQ0EwIBcNMjYxMTE4MDA0NTM3WhgPMjEyNjEwMjUw\n"
    "MDQ1MzdaMBMxETAPBgNVBAMMCG90aGVyIENBMFkwEwYHKoZIzj0CAQYIKoZIzj0D\n"
    "AQcDQgAEkOVApVHRy8311w9vGDu74zC/89qWK+bgaZlTHMozsoYaGPcpUz0sERWt\n"
    "fy1plbLjlRh0zJJHWQCf7g/DQjW6JaNTMFEwHQYDVR0OBBYEFLyOIDF91moAE0up\n"
    "TC1dCiXBL/bmMB8GA1UdIwQYMBaAFLyOIDF91moAE0upTC1dCiXBL/bmMA8GA1Ud\n"
    "EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgdm4soOZtsIOf0iTRO6UQO+rK\n"
    "YBE0++bHxv7bvPgch0YCIBkUx1iwp9uUxsmMHt7QJFL06e8F65ndxhNguDznuSSr\n"
    "-----END CERTIFICATE-----\n";
inline constexpr const char* kOtherSubject = "6b9d712b";

}  // namespace firebreak::image
