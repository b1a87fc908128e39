"""What programs mean, in numpy: the specification that every pass and code generator is compared with."""
