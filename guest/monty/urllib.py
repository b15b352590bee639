"""The package of urllib.parse."""
